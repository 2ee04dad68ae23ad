//! Sets of completion indexes in the format of the status: `1,3-5,7`.

use std::fmt;

/// A set of indexes, as ordered ranges that do not touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Indexes {
    ranges: Vec<IndexRange>,
}

/// An inclusive range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct IndexRange {
    first: u32,
    last: u32,
}

// --- Indexes ---

impl Indexes {
    /// Parses a set; indexes from `end` on and unparsable parts are skipped.
    // upstream: pkg/controller/job/indexed_job_utils.go parseIndexesFromString
    pub(super) fn parse(text: &str, end: u32) -> Self {
        let mut set = Indexes::default();
        for part in text.split(',').filter(|part| !part.is_empty()) {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let (Ok(first), Ok(last)) = (first.parse::<u32>(), last.parse::<u32>()) else {
                tracing::warn!(part, "cannot parse range of completion indexes");
                continue;
            };
            if first >= end {
                break;
            }
            set.push(IndexRange {
                first,
                last: last.min(end - 1),
            });
        }
        set
    }

    /// Number of indexes.
    pub(super) fn count(&self) -> i32 {
        let count = self.ranges.iter().map(|range| range.last - range.first + 1).sum();
        u32::try_into(count).unwrap_or(i32::MAX)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Whether the set contains an index.
    pub(super) fn has(&self, index: u32) -> bool {
        let at = self.ranges.partition_point(|range| range.last < index);
        self.ranges.get(at).is_some_and(|range| range.first <= index)
    }

    /// The union of two sets.
    // upstream: pkg/controller/job/indexed_job_utils.go merge
    pub(super) fn union(&self, other: &Indexes) -> Indexes {
        let mut ranges: Vec<_> = self.ranges.iter().chain(&other.ranges).copied().collect();
        ranges.sort_unstable_by_key(|range| range.first);
        let mut all = Indexes::default();
        for range in ranges {
            all.push(range);
        }
        all
    }

    /// Size of the intersection.
    pub(super) fn count_common(&self, other: &Indexes) -> i32 {
        let mut common = 0;
        let mut these = self.ranges.iter().peekable();
        let mut those = other.ranges.iter().peekable();
        while let (Some(this), Some(that)) = (these.peek(), those.peek()) {
            let first = this.first.max(that.first);
            let last = this.last.min(that.last);
            common += (last + 1).saturating_sub(first);
            if this.last <= that.last {
                these.next();
            } else {
                those.next();
            }
        }
        u32::try_into(common).unwrap_or(i32::MAX)
    }

    /// The first `count` indexes below `end` that are not in the set.
    // upstream: pkg/controller/job/indexed_job_utils.go firstPendingIndexes
    pub(super) fn missing(&self, end: u32, count: usize) -> Vec<u32> {
        let mut missing = Vec::new();
        let mut next = 0;
        let past = IndexRange {
            first: end,
            last: end,
        };
        for range in self.ranges.iter().chain([&past]) {
            let capacity = count - missing.len();
            missing.extend((next..range.first.min(end)).take(capacity));
            next = range.last.saturating_add(1);
        }
        missing
    }

    /// Appends a range that starts no earlier than the last one.
    fn push(&mut self, range: IndexRange) {
        match self.ranges.last_mut() {
            Some(last) if range.first <= last.last.saturating_add(1) => last.last = last.last.max(range.last),
            _ => self.ranges.push(range),
        }
    }
}

impl FromIterator<u32> for Indexes {
    fn from_iter<I: IntoIterator<Item = u32>>(indexes: I) -> Self {
        let mut indexes: Vec<u32> = indexes.into_iter().collect();
        indexes.sort_unstable();
        let mut set = Indexes::default();
        for index in indexes {
            set.push(IndexRange {
                first: index,
                last: index,
            });
        }
        set
    }
}

impl fmt::Display for Indexes {
    // upstream: pkg/controller/job/indexed_job_utils.go String
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, IndexRange { first, last }) in self.ranges.iter().enumerate() {
            if position > 0 {
                f.write_str(",")?;
            }
            match last - first {
                0 => write!(f, "{first}")?,
                1 => write!(f, "{first},{last}")?,
                _ => write!(f, "{first}-{last}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_index_sets() {
        for (text, end, written) in [
            ("", 10, ""),
            ("0", 10, "0"),
            ("0,1", 10, "0,1"),
            ("0,1,2", 10, "0-2"),
            ("1,3-5,6,9", 10, "1,3-6,9"),
            ("1,3-5,7", 5, "1,3,4"),
            ("7", 5, ""),
            ("1,x,4-y,3", 10, "1,3"),
        ] {
            assert_eq!(Indexes::parse(text, end).to_string(), written, "{text}");
        }
        assert_eq!(
            [4, 2, 3, 3, 9].into_iter().collect::<Indexes>().to_string(),
            "2-4,9"
        );
    }

    #[test]
    fn counts_and_merges_index_sets() {
        let set = Indexes::parse("1,3-5,9", 10);
        assert_eq!(set.count(), 5);
        let has: Vec<u32> = (0..11).filter(|index| set.has(*index)).collect();
        assert_eq!(has, [1, 3, 4, 5, 9]);
        let other = Indexes::parse("0,5-7", 10);
        assert_eq!(set.union(&other).to_string(), "0,1,3-7,9");
        for (these, those, common) in [
            ("1,3-5,9", "0,5-7", 1),
            ("0-9", "2,4-5", 3),
            ("", "1", 0),
            ("1-3", "1-3", 3),
        ] {
            let these = Indexes::parse(these, 10);
            let those = Indexes::parse(those, 10);
            assert_eq!(these.count_common(&those), common);
            assert_eq!(those.count_common(&these), common);
        }
    }

    #[test]
    fn returns_missing_indexes_in_order() {
        let set = Indexes::parse("1,3-5,9", 20);
        assert_eq!(set.missing(12, 100), [0, 2, 6, 7, 8, 10, 11]);
        assert_eq!(set.missing(12, 3), [0, 2, 6]);
        assert_eq!(set.missing(4, 100), [0, 2]);
        assert_eq!(Indexes::default().missing(2, 5), [0, 1]);
        assert_eq!(Indexes::default().missing(0, 5), [] as [u32; 0]);
    }
}
