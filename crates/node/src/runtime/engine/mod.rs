//! Docker and Podman, through the Docker Engine API.
