mod scenario;
mod sync;
