mod control;
mod scenario;
