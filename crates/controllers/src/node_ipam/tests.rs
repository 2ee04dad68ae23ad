//! Nodes that want networks.
