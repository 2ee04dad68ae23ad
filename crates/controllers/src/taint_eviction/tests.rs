//! What becomes of pods on nodes whose taints they do not bear.
