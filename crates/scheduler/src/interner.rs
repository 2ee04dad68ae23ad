//! Values that many objects share are kept once.

use std::{hash::Hash, sync::Arc};

use hashbrown::HashSet;

/// A string that is shared.
pub type Text = Arc<str>;

/// Values that are kept once. What nothing refers to any more is dropped in time: the pool stays within a small
/// factor of what is in use.
#[derive(Debug)]
pub struct Interner<T: ?Sized> {
    known: HashSet<Arc<T>>,
    sweep_at: usize,
}

/// The pools of a scheduler.
#[derive(Debug, Default)]
pub struct StringInterner {
    /// Names, keys and values.
    pub texts: Interner<str>,
    /// Sets of labels.
    pub labels: Interner<crate::labels::Labels>,
    /// What pods of one template have in common.
    pub specs: Interner<crate::object::Spec>,
}

const FIRST_SWEEP: usize = 1024;

impl<T: ?Sized + Eq + Hash> Default for Interner<T> {
    fn default() -> Self {
        Interner {
            known: HashSet::new(),
            sweep_at: FIRST_SWEEP,
        }
    }
}

impl<T: ?Sized + Eq + Hash> Interner<T> {
    fn keep(&mut self, value: Arc<T>) -> Arc<T> {
        if self.known.len() >= self.sweep_at {
            self.known.retain(|known| Arc::strong_count(known) > 1);
            self.sweep_at = FIRST_SWEEP.max(self.known.len() * 2);
        }
        self.known.insert(value.clone());
        value
    }
}

impl Interner<str> {
    /// The shared copy of a string.
    pub fn text(&mut self, value: &str) -> Text {
        match self.known.get(value) {
            Some(known) => known.clone(),
            None => self.keep(value.into()),
        }
    }
}

impl<T: Eq + Hash> Interner<T> {
    /// The shared copy of a value.
    pub fn share(&mut self, value: T) -> Arc<T> {
        match self.known.get(&value) {
            Some(known) => known.clone(),
            None => self.keep(Arc::new(value)),
        }
    }
}

impl StringInterner {
    /// The shared copy of a string.
    pub fn text(&mut self, value: &str) -> Text {
        self.texts.text(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_values_are_one_value() {
        let mut interner = Interner::default();
        assert!(Arc::ptr_eq(&interner.text("a"), &interner.text("a")));
    }

    #[test]
    fn what_nothing_uses_is_dropped() {
        let mut interner = Interner::default();
        let kept = interner.text("kept");
        for number in 0..10 * FIRST_SWEEP {
            interner.text(&number.to_string());
        }
        assert!(interner.known.len() <= 2 * FIRST_SWEEP);
        assert!(Arc::ptr_eq(&kept, &interner.text("kept")));
    }
}
