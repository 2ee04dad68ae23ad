//! containerd and CRI-O, through CRI v1.
