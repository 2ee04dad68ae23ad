//! Scores of nodes, and how they are made comparable.

/// The best score.
pub(super) const MAX_NODE_SCORE: i64 = 100;

/// Stretches scores so that the best is [`MAX_NODE_SCORE`]; or, reversed, so that zero is.
// upstream: pkg/scheduler/framework/plugins/helper/normalize_score.go DefaultNormalizeScore
pub(super) fn default_normalize_score(scores: &mut [i64], reversed: bool) {
    let most = scores.iter().copied().max().unwrap_or(0);
    for score in scores {
        let stretched = if most > 0 {
            MAX_NODE_SCORE * *score / most
        } else {
            0
        };
        *score = match (most > 0, reversed) {
            (_, true) => MAX_NODE_SCORE - stretched,
            (true, false) => stretched,
            (false, false) => *score,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_is_the_maximum() {
        for (scores, reversed, stretched) in [
            (vec![1, 2, 4], false, vec![25, 50, 100]),
            (vec![1, 2, 4], true, vec![75, 50, 0]),
            (vec![0, 0], false, vec![0, 0]),
            (vec![0, 0], true, vec![100, 100]),
        ] {
            let mut found = scores.clone();
            default_normalize_score(&mut found, reversed);
            assert_eq!(found, stretched, "{scores:?} {reversed}");
        }
    }
}
