//! The node's own API: logs, exec, attach, port-forward, figures.
