//! The work queue of `kubecontroller`, compiled against the locks of the model checker `shuttle`. The tests are in `tests`.

/// Replaces `kubecontroller`'s module of the same name: locks of the model checker, which a panic does not poison either.
mod sync {
    use std::sync::PoisonError;

    pub(crate) use shuttle::sync::MutexGuard;

    #[derive(Debug)]
    pub(crate) struct Mutex<T>(shuttle::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }
}

#[path = "../../../crates/kubecontroller/src/workqueue/mod.rs"]
pub mod workqueue;
