//! Scores of nodes, and how they are made comparable.

/// The best score.
pub(super) const MAX_NODE_SCORE: i64 = 100;

/// Stretches scores so that the highest is [`MAX_NODE_SCORE`].
// upstream: pkg/scheduler/framework/plugins/helper/normalize_score.go DefaultNormalizeScore
pub(super) fn default_normalize_score(scores: &mut [i64]) {
    let most = scores.iter().copied().max().unwrap_or(0);
    if most > 0 {
        for score in scores {
            *score = MAX_NODE_SCORE * *score / most;
        }
    }
}

/// Stretches scores so that a score of zero becomes [`MAX_NODE_SCORE`] and the highest becomes zero.
// upstream: pkg/scheduler/framework/plugins/helper/normalize_score.go DefaultNormalizeScore
pub(super) fn reverse_normalize_score(scores: &mut [i64]) {
    let most = scores.iter().copied().max().unwrap_or(0);
    for score in scores {
        let stretched = if most > 0 {
            MAX_NODE_SCORE * *score / most
        } else {
            0
        };
        *score = MAX_NODE_SCORE - stretched;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_the_maximum() {
        for (scores, stretched, reversed) in [
            ([1, 2, 4], [25, 50, 100], [75, 50, 0]),
            ([0, 0, 0], [0, 0, 0], [100, 100, 100]),
        ] {
            let mut found = scores;
            default_normalize_score(&mut found);
            assert_eq!(found, stretched, "{scores:?}");
            let mut found = scores;
            reverse_normalize_score(&mut found);
            assert_eq!(found, reversed, "{scores:?}");
        }
    }
}
