//! What a misspelt name means.

/// The known word closest to a misspelt one, by edit distance; none if all differ by more than three edits.
pub fn closest_match<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let nearest = known.map(|known| (distance(word, known), known)).min();
    nearest
        .filter(|(distance, _)| *distance <= 3)
        .map(|(_, known)| known)
}

/// The Levenshtein distance, ignoring case.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, from) in from.to_lowercase().chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, to) in to.iter().enumerate() {
            let kept = diagonal + usize::from(from != *to);
            diagonal = row[column + 1];
            row[column + 1] = kept.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[to.len()]
}
