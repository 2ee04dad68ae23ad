//! Images: when they are pulled, and when again.
