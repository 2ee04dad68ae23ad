//! The pods' network for runtimes that are told by files of CNI.
