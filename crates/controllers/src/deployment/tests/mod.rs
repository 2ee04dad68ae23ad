mod sync;
mod scenario;
