//! Lists that many objects have alike.

use std::{
    borrow::Borrow,
    collections::HashSet,
    fmt,
    hash::Hash,
    ops::Deref,
    sync::{Arc, Mutex, PoisonError},
};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A list that is kept once, however many objects have it: the pods of a set differ in little more than their names.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedList<T>(Option<Arc<[T]>>);

/// What lists are shared of.
pub trait Internable: Eq + Hash + Send + Sync + Sized + 'static {
    /// All lists of it.
    fn pool() -> &'static Interner<[Self]>;
}

/// All values of a type that somebody has.
pub struct Interner<T: ?Sized>(Mutex<InternTable<T>>);

struct InternTable<T: ?Sized> {
    values: HashSet<Arc<T>>,
    /// How many there were after the last throwing out of those that nobody has any more.
    size_after_sweep: usize,
}

/// Lets lists of a type be shared.
macro_rules! internable {
    ($($type:ty),* $(,)?) => {
        $(impl $crate::objects::Internable for $type {
            fn pool() -> &'static $crate::objects::Interner<[Self]> {
                static POOL: std::sync::LazyLock<$crate::objects::Interner<[$type]>> =
                    std::sync::LazyLock::new($crate::objects::Interner::default);
                &POOL
            }
        })*
    };
}

pub(crate) use internable;

internable!(Box<str>);

// --- Pool ---

impl<T: ?Sized> Default for Interner<T> {
    fn default() -> Self {
        Interner(Mutex::new(InternTable {
            values: HashSet::new(),
            size_after_sweep: 0,
        }))
    }
}

impl<T: ?Sized + Eq + Hash> Interner<T> {
    /// The value that is equal to this one and was there before, or this one.
    pub fn share(&self, value: impl Borrow<T> + Into<Arc<T>>) -> Arc<T> {
        const FEW: usize = 64;
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(same) = known.values.get(value.borrow()) {
            return Arc::clone(same);
        }
        if known.values.len() >= FEW.max(2 * known.size_after_sweep) {
            known.values.retain(|value| Arc::strong_count(value) > 1);
            known.size_after_sweep = known.values.len();
        }
        let new: Arc<T> = value.into();
        known.values.insert(Arc::clone(&new));
        new
    }
}

// --- Shared ---

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        SharedList(None)
    }
}

impl<T: Internable> From<Vec<T>> for SharedList<T> {
    fn from(list: Vec<T>) -> Self {
        SharedList((!list.is_empty()).then(|| T::pool().share(list)))
    }
}

impl<T: Internable> FromIterator<T> for SharedList<T> {
    fn from_iter<I: IntoIterator<Item = T>>(list: I) -> Self {
        Vec::from_iter(list).into()
    }
}

impl<T> Deref for SharedList<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        self.0.as_deref().unwrap_or_default()
    }
}

impl<'a, T> IntoIterator for &'a SharedList<T> {
    type Item = &'a T;
    type IntoIter = std::slice::Iter<'a, T>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

impl<T: fmt::Debug> fmt::Debug for SharedList<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(&**self).finish()
    }
}

impl<'de, T: Internable + Deserialize<'de>> Deserialize<'de> for SharedList<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let list = Option::<Vec<T>>::deserialize(from)?;
        Ok(list.unwrap_or_default().into())
    }
}

impl<T: Serialize> Serialize for SharedList<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Number(u32);
    internable!(Number);

    fn list(numbers: impl IntoIterator<Item = u32>) -> SharedList<Number> {
        numbers.into_iter().map(Number).collect()
    }

    #[test]
    fn equal_lists_are_kept_once() {
        let (one, other) = (list([1, 2]), list([1, 2]));
        assert_eq!(one, other);
        assert!(std::ptr::eq(&raw const *one, &raw const *other));
        assert_ne!(list([1]), list([2]));
        assert_eq!(list([]), SharedList::default());
    }

    #[test]
    fn what_nobody_has_is_thrown_out() {
        let kept = list([7_000]);
        for number in 0..1_000 {
            drop(list([number]));
        }
        let known = Number::pool().0.lock().unwrap();
        assert!(known.values.len() < 200, "{} are kept", known.values.len());
        assert!(known.values.contains(&*kept));
    }
}
