mod manage;
mod scenario;
