//! Events that tell users what controllers do.
