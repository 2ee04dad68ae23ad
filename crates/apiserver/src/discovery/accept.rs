//! Parser of Accept headers for discovery and OpenAPI.

/// A clause of an Accept header: the media types a client would take.
pub(crate) struct AcceptRange<'h> {
    /// Type and subtype, as in `application/json` or `*/*`.
    media: &'h str,
    parameters: Vec<(&'h str, &'h str)>,
    /// How much it is wanted, 0 to 1.
    quality: f32,
}

/// The clauses of a header, what is wanted most first; among equals what is more exact, then what stands first.
pub(crate) fn ranges(accept: &str) -> Vec<AcceptRange<'_>> {
    let mut ranges: Vec<_> = accept.split(',').filter_map(AcceptRange::parse).collect();
    ranges.sort_by(|a, b| b.rank().total_cmp(&a.rank()));
    ranges
}

// --- AcceptRange ---

impl<'h> AcceptRange<'h> {
    fn parse(clause: &'h str) -> Option<Self> {
        let mut parts = clause.split(';').map(str::trim);
        let mut range = AcceptRange {
            media: parts.next().filter(|media| !media.is_empty())?,
            parameters: Vec::new(),
            quality: 1.0,
        };
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                "q" => range.quality = value.trim().parse().unwrap_or_default(),
                name => range.parameters.push((name, value.trim())),
            }
        }
        Some(range)
    }

    fn rank(&self) -> f32 {
        let exact = match self.media {
            "*" | "*/*" => 0.0,
            media if media.ends_with("/*") => 1.0,
            _ => 2.0,
        };
        self.quality * 10.0 + exact
    }

    /// Whether it takes a media type; both sides without parameters.
    pub(crate) fn takes(&self, media: &str) -> bool {
        match self.media.split_once('/') {
            None => self.media == "*",
            Some(("*", "*")) => true,
            Some((kind, "*")) => media.split_once('/').is_some_and(|(of, _)| of == kind),
            Some(_) => self.media == media,
        }
    }

    /// The value of a parameter.
    pub(crate) fn parameter(&self, name: &str) -> Option<&'h str> {
        let mut found = self.parameters.iter().filter(|(parameter, _)| *parameter == name);
        found.next_back().map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_by_quality_then_specificity() {
        let media: Vec<_> = ranges("*/*, text/*, a/b;q=0.5, c/d;v=1")
            .iter()
            .map(|range| range.media)
            .collect();
        assert_eq!(media, ["c/d", "text/*", "*/*", "a/b"]);
    }

    #[test]
    fn wildcards_match_media_types() {
        let takes = |accept: &str, media| ranges(accept)[0].takes(media);
        assert!(takes("*/*", "a/b") && takes("*", "a/b") && takes("a/*", "a/b") && takes("a/b;x=y", "a/b"));
        assert!(!takes("a/*", "b/b") && !takes("a/c", "a/b"));
    }
}
