//! Deletes jobs some time after they have finished, if they ask for it.

mod plan;
