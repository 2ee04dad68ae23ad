//! The node itself: it registers, tells how it is, and makes room.
