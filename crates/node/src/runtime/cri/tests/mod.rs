//! Claims against a runtime that answers as CRI-O does.
