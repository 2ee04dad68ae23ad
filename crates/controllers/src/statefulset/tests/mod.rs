mod plan;
mod story;
