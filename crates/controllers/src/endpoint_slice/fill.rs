//! How endpoints are put into slices so that few slices change.
//!
//! Endpoints stay where they are. Those that are new fill up slices that change anyway, the fullest ones first; if some are
//! left, they go into the one slice that they fill best; only then there are new slices. Slices are never brought together:
//! that would change many of them for the good of nobody.

use std::sync::Arc;

use crate::{
    objects::{Endpoint, EndpointSlice},
    services::endpoint_key::{EndpointKey, EndpointSet, differs},
};

/// What becomes of slices.
#[derive(Debug, Default)]
pub(super) struct Filled {
    /// The endpoints of slices that are new.
    pub(super) new: Vec<Vec<Endpoint>>,
    /// Those of slices that change.
    pub(super) changed: Vec<(Arc<EndpointSlice>, Vec<Endpoint>)>,
    /// Slices that stay.
    pub(super) same: Vec<Arc<EndpointSlice>>,
    /// Slices that are of no use any more.
    pub(super) empty: Vec<Arc<EndpointSlice>>,
}

/// Puts endpoints into slices, no more than `most` into each. `is_outdated` says which slices have to change in any case.
pub(super) fn fill(
    slices: &[Arc<EndpointSlice>],
    mut desired: EndpointSet,
    is_outdated: impl Fn(&EndpointSlice) -> bool,
    most: usize,
) -> Filled {
    let mut filled = Filled::default();
    for slice in slices {
        let (kept, is_changed) = keep(slice, &mut desired);
        if !is_changed && !is_outdated(slice) {
            filled.same.push(Arc::clone(slice));
        } else if !is_changed {
            filled.changed.push((Arc::clone(slice), slice.endpoints.clone()));
        } else if kept.is_empty() {
            filled.empty.push(Arc::clone(slice));
        } else {
            filled.changed.push((Arc::clone(slice), kept));
        }
    }
    let mut take = |room: usize| -> Vec<Endpoint> {
        let taken = std::iter::from_fn(|| desired.pop_first());
        taken.take(room).map(|(_, endpoint)| endpoint).collect()
    };
    filled
        .changed
        .sort_by_key(|(_, endpoints)| std::cmp::Reverse(endpoints.len()));
    for (_, endpoints) in &mut filled.changed {
        endpoints.extend(take(most.saturating_sub(endpoints.len())));
    }
    let mut left = take(usize::MAX);
    while !left.is_empty() {
        match best(&filled.same, left.len(), most) {
            Some(position) => {
                let slice = filled.same.remove(position);
                let mut endpoints = slice.endpoints.clone();
                endpoints.append(&mut left);
                filled.changed.push((slice, endpoints));
            }
            None => filled.new.push(left.drain(..left.len().min(most)).collect()),
        }
    }
    filled
}

/// The endpoints of a slice that are desired still, as they are to be, and whether that is a change. They are desired no
/// more by others.
fn keep(slice: &EndpointSlice, desired: &mut EndpointSet) -> (Vec<Endpoint>, bool) {
    let mut is_changed = false;
    let mut kept = Vec::with_capacity(slice.endpoints.len());
    for old in &slice.endpoints {
        match desired.remove(&EndpointKey::of(old)) {
            Some(new) => {
                is_changed |= differs(old, &new);
                kept.push(new);
            }
            None => is_changed = true,
        }
    }
    (kept, is_changed)
}

/// The slice that has the least room left with so many endpoints more; `None` if there is not enough room in any.
fn best(slices: &[Arc<EndpointSlice>], more: usize, most: usize) -> Option<usize> {
    if more >= most {
        return None;
    }
    let room = |slice: &EndpointSlice| most.checked_sub(slice.endpoints.len() + more);
    let rooms = slices.iter().enumerate();
    let rooms = rooms.filter_map(|(position, slice)| Some((room(slice)?, position)));
    rooms.min().map(|(_, position)| position)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(address: usize) -> Endpoint {
        Endpoint {
            addresses: vec![address.to_string().into()],
            ..Endpoint::default()
        }
    }

    fn set(addresses: impl IntoIterator<Item = usize>) -> EndpointSet {
        let endpoints = addresses.into_iter().map(endpoint);
        endpoints
            .map(|endpoint| (EndpointKey::of(&endpoint), endpoint))
            .collect()
    }

    fn slice(addresses: impl IntoIterator<Item = usize>) -> Arc<EndpointSlice> {
        Arc::new(EndpointSlice {
            endpoints: addresses.into_iter().map(endpoint).collect(),
            ..EndpointSlice::default()
        })
    }

    /// How many endpoints new slices and changed ones have, and how many slices stay and go.
    fn sizes(filled: &Filled) -> (Vec<usize>, Vec<usize>, usize, usize) {
        (
            filled.new.iter().map(Vec::len).collect(),
            filled
                .changed
                .iter()
                .map(|(_, endpoints)| endpoints.len())
                .collect(),
            filled.same.len(),
            filled.empty.len(),
        )
    }

    #[test]
    fn few_slices_change() {
        const HALVES: &[(usize, usize)] = &[(0, 50), (50, 100)];
        let none = Vec::new;
        for (slices, desired, expected, what) in [
            (&[][..], 0..250, (vec![100, 100, 50], none(), 0, 0), "all are new"),
            (&[(0, 100)], 0..100, (none(), none(), 1, 0), "nothing has changed"),
            (
                &[(0, 50), (50, 60)],
                0..65,
                (none(), vec![55], 1, 0),
                "the fullest with room",
            ),
            (
                &[(0, 99), (103, 113)],
                0..113,
                (none(), vec![14], 1, 0),
                "the one with room for all",
            ),
            (
                HALVES,
                10..130,
                (none(), vec![70], 1, 0),
                "what changes anyway is filled",
            ),
            (
                HALVES,
                10..170,
                (none(), vec![100, 60], 0, 0),
                "then one that has room",
            ),
            (
                &[(0, 100)],
                0..330,
                (vec![100, 100, 30], none(), 1, 0),
                "what has room nowhere is new",
            ),
            (
                HALVES,
                50..100,
                (none(), none(), 1, 1),
                "a slice without endpoints goes",
            ),
            (
                &[(0, 10), (0, 10)],
                0..10,
                (none(), none(), 1, 1),
                "no endpoint is told twice",
            ),
        ] {
            let slices: Vec<_> = slices.iter().map(|(first, end)| slice(*first..*end)).collect();
            let filled = fill(&slices, set(desired), |_| false, 100);
            assert_eq!(sizes(&filled), expected, "{what}");
        }
    }

    #[test]
    fn an_outdated_slice_changes_and_is_filled() {
        let slices = [slice(0..10), slice(10..20)];
        let filled = fill(
            &slices,
            set(0..25),
            |slice| slice.endpoints.first() == Some(&endpoint(10)),
            100,
        );
        assert_eq!(sizes(&filled), (vec![], vec![15], 1, 0));
    }
}
