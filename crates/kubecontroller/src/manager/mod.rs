//! Controllers together: configuration, start, health, stop.

mod runnable;
mod stop;

pub use self::{
    runnable::{BoxError, Runnable, Task, task},
    stop::Stop,
};
