//! Interned values: lists and parts that many objects share.

use std::{borrow::Borrow, collections::HashSet, fmt, hash::Hash, ops::Deref, sync::Arc};

use parking_lot::Mutex;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A list that is stored once for all objects that have it: the pods of a set differ in little more than their names.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SharedList<T>(Option<Arc<[T]>>);

/// A value that is stored once for all objects that have it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Shared<T>(Arc<T>);

/// What can be shared, alone and in lists.
pub trait Internable: Default + Eq + Hash + Send + Sync + Sized + 'static {
    /// All lists of it.
    fn lists() -> &'static Interner<[Self]>;
    /// All single values of it.
    fn values() -> &'static Interner<Self>;
    /// The default value.
    fn shared_default() -> &'static Arc<Self>;
}

/// Interned values of a type.
// upstream: staging/src/k8s.io/client-go/tools/cache/thread_safe_store.go ThreadSafeStore; interning equal lists is k3's own, to save memory
pub struct Interner<T: ?Sized>(Mutex<InternTable<T>>);

struct InternTable<T: ?Sized> {
    values: HashSet<Arc<T>>,
    /// Size after the last removal of unused values.
    size_after_sweep: usize,
}

/// Lets values of a type, and lists of them, be shared.
#[macro_export]
macro_rules! internable {
    ($($type:ty),* $(,)?) => {
        $(impl $crate::object::Internable for $type {
            fn lists() -> &'static $crate::object::Interner<[Self]> {
                static LISTS: std::sync::LazyLock<$crate::object::Interner<[$type]>> =
                    std::sync::LazyLock::new($crate::object::Interner::default);
                &LISTS
            }

            fn values() -> &'static $crate::object::Interner<Self> {
                static VALUES: std::sync::LazyLock<$crate::object::Interner<$type>> =
                    std::sync::LazyLock::new($crate::object::Interner::default);
                &VALUES
            }

            fn shared_default() -> &'static std::sync::Arc<Self> {
                static DEFAULT: std::sync::LazyLock<std::sync::Arc<$type>> =
                    std::sync::LazyLock::new(std::sync::Arc::default);
                &DEFAULT
            }
        })*
    };
}

internable!(Box<str>);

// --- Interner ---

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
        let mut known = self.0.lock();
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

impl<T: Internable> Shared<T> {
    /// The shared copy of a value.
    pub fn new(value: T) -> Self {
        Shared(T::values().share(value))
    }
}

impl<T> Shared<T> {
    /// Whether both are the same copy. Equal values are, as long as both exist.
    pub fn ptr_eq(one: &Self, other: &Self) -> bool {
        Arc::ptr_eq(&one.0, &other.0)
    }

    /// The address of the copy.
    pub fn as_ptr(&self) -> *const T {
        Arc::as_ptr(&self.0)
    }
}

impl<T: Internable> Default for Shared<T> {
    fn default() -> Self {
        Shared(Arc::clone(T::shared_default()))
    }
}

impl<T> Deref for Shared<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        T::fmt(self, f)
    }
}

impl<'de, T: Internable + Deserialize<'de>> Deserialize<'de> for Shared<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        T::deserialize(from).map(Shared::new)
    }
}

// --- SharedList ---

impl<T> Default for SharedList<T> {
    fn default() -> Self {
        SharedList(None)
    }
}

impl<T: Internable> From<Vec<T>> for SharedList<T> {
    fn from(list: Vec<T>) -> Self {
        SharedList((!list.is_empty()).then(|| T::lists().share(list)))
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

    #[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
    struct TestNumber(u32);
    internable!(TestNumber);

    fn list(numbers: impl IntoIterator<Item = u32>) -> SharedList<TestNumber> {
        numbers.into_iter().map(TestNumber).collect()
    }

    #[test]
    fn interns_equal_lists() {
        let one = list([1, 2]);
        let other = list([1, 2]);
        assert_eq!(one, other);
        assert!(std::ptr::eq(&raw const *one, &raw const *other));
        assert_ne!(list([1]), list([2]));
        assert_eq!(list([]), SharedList::default());
    }

    #[test]
    fn drops_unused_interned_values() {
        let kept = list([7_000]);
        for number in 0..1_000 {
            drop(list([number]));
        }
        let known = TestNumber::lists().0.lock();
        assert!(known.values.len() < 200, "{} are kept", known.values.len());
        assert!(known.values.contains(&*kept));
    }
}
