//! Assigns endpoints to slices so that few slices change.
//!
//! Endpoints stay in their slice. New ones fill slices that change anyway, the fullest first; the rest is put into the one slice that
//! it fills best; only then are new slices created. Slices are never merged: that would change many of them at little
//! benefit.

use std::sync::Arc;

use crate::{
    objects::{Endpoint, EndpointSlice},
    services::endpoint_key::{EndpointKey, EndpointSet, differs},
};

/// The assignment.
#[derive(Debug, Default)]
pub(super) struct SliceAssignment {
    /// Endpoints of new slices.
    pub(super) new: Vec<Vec<Endpoint>>,
    /// Endpoints of updated slices.
    pub(super) changed: Vec<(Arc<EndpointSlice>, Vec<Endpoint>)>,
    /// Unchanged slices.
    pub(super) same: Vec<Arc<EndpointSlice>>,
    /// Slices to delete.
    pub(super) empty: Vec<Arc<EndpointSlice>>,
}

/// Assigns endpoints to slices, at most `zone_with_most` per slice. `is_outdated` reports slices that have to be updated in any case.
// upstream: staging/src/k8s.io/endpointslice/reconciler.go reconcileByPortMapping
pub(super) fn assign_endpoints(
    slices: &[Arc<EndpointSlice>],
    mut desired: EndpointSet,
    is_outdated: impl Fn(&EndpointSlice) -> bool,
    max: usize,
) -> SliceAssignment {
    let mut assignment = SliceAssignment::default();
    for slice in slices {
        let (kept, is_changed) = retain_desired(slice, &mut desired);
        if !is_changed && !is_outdated(slice) {
            assignment.same.push(Arc::clone(slice));
        } else if !is_changed {
            assignment
                .changed
                .push((Arc::clone(slice), slice.endpoints.clone()));
        } else if kept.is_empty() {
            assignment.empty.push(Arc::clone(slice));
        } else {
            assignment.changed.push((Arc::clone(slice), kept));
        }
    }
    let mut take = |capacity: usize| -> Vec<Endpoint> {
        let taken = std::iter::from_fn(|| desired.pop_first());
        taken.take(capacity).map(|(_, endpoint)| endpoint).collect()
    };
    assignment
        .changed
        .sort_by_key(|(_, endpoints)| std::cmp::Reverse(endpoints.len()));
    for (_, endpoints) in &mut assignment.changed {
        endpoints.extend(take(max.saturating_sub(endpoints.len())));
    }
    let mut left = take(usize::MAX);
    while !left.is_empty() {
        match slice_to_fill(&assignment.same, left.len(), max) {
            Some(position) => {
                let slice = assignment.same.remove(position);
                let mut endpoints = slice.endpoints.clone();
                endpoints.append(&mut left);
                assignment.changed.push((slice, endpoints));
            }
            None => assignment.new.push(left.drain(..left.len().min(max)).collect()),
        }
    }
    assignment
}

/// The endpoints of a slice that are still desired, in their desired form, and whether that is a change. They are removed from
/// `desired`.
fn retain_desired(slice: &EndpointSlice, desired: &mut EndpointSet) -> (Vec<Endpoint>, bool) {
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

/// The slice with the least free capacity with capacity for `more` endpoints; `None` if there is none.
// upstream: staging/src/k8s.io/endpointslice/utils.go getSliceToFill
fn slice_to_fill(slices: &[Arc<EndpointSlice>], more: usize, max: usize) -> Option<usize> {
    if more >= max {
        return None;
    }
    let capacity = |slice: &EndpointSlice| max.checked_sub(slice.endpoints.len() + more);
    let capacities = slices.iter().enumerate();
    let capacities = capacities.filter_map(|(position, slice)| Some((capacity(slice)?, position)));
    capacities.min().map(|(_, position)| position)
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
    fn sizes(assignment: &SliceAssignment) -> (Vec<usize>, Vec<usize>, usize, usize) {
        (
            assignment.new.iter().map(Vec::len).collect(),
            assignment
                .changed
                .iter()
                .map(|(_, endpoints)| endpoints.len())
                .collect(),
            assignment.same.len(),
            assignment.empty.len(),
        )
    }

    #[test]
    fn minimizes_slice_changes() {
        const HALVES: &[(usize, usize)] = &[(0, 50), (50, 100)];
        let none = Vec::new;
        for (slices, desired, expected, what) in [
            (&[][..], 0..250, (vec![100, 100, 50], none(), 0, 0), "all are new"),
            (&[(0, 100)], 0..100, (none(), none(), 1, 0), "nothing has changed"),
            (
                &[(0, 50), (50, 60)],
                0..65,
                (none(), vec![55], 1, 0),
                "the fullest with capacity",
            ),
            (
                &[(0, 99), (103, 113)],
                0..113,
                (none(), vec![14], 1, 0),
                "the one with capacity for all",
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
                "then one with capacity",
            ),
            (
                &[(0, 100)],
                0..330,
                (vec![100, 100, 30], none(), 1, 0),
                "the rest needs a new slice",
            ),
            (
                HALVES,
                50..100,
                (none(), none(), 1, 1),
                "an empty slice is deleted",
            ),
            (
                &[(0, 10), (0, 10)],
                0..10,
                (none(), none(), 1, 1),
                "no endpoint is listed twice",
            ),
        ] {
            let slices: Vec<_> = slices.iter().map(|(first, end)| slice(*first..*end)).collect();
            let assignment = assign_endpoints(&slices, set(desired), |_| false, 100);
            assert_eq!(sizes(&assignment), expected, "{what}");
        }
    }

    #[test]
    fn fills_an_outdated_slice() {
        let slices = [slice(0..10), slice(10..20)];
        let assignment = assign_endpoints(
            &slices,
            set(0..25),
            |slice| slice.endpoints.first() == Some(&endpoint(10)),
            100,
        );
        assert_eq!(sizes(&assignment), (vec![], vec![15], 1, 0));
    }
}
