//! Check of the container runtime.

use k3_node::runtime::{
    ContainerOwner,
    detect::{RuntimeSelection, detect},
};

use super::check::DoctorCheck;

const RUNTIME: &str = "container runtime";

/// Detects a runtime as the node does.
pub(super) async fn check(wanted: &RuntimeSelection) -> DoctorCheck {
    let owner = ContainerOwner::new("doctor", "");
    match detect(wanted, &owner).await {
        Ok(runtime) => match runtime.version().await {
            Ok(version) => DoctorCheck::ok(RUNTIME, format!("{} {} answers", version.name, version.version)),
            Err(error) => DoctorCheck::warn(RUNTIME, error.to_string(), "see its log"),
        },
        Err(error) => DoctorCheck::warn(
            RUNTIME,
            error.to_string(),
            "install and start docker, podman, containerd or cri-o; or use --simulated-nodes 1 or --no-node",
        ),
    }
}
