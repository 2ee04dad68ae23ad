//! Warnings about deprecated API versions.

use k3_api::kinds::Kind;

use crate::custom::DefinitionRegistry;

/// The warning about a kind, if it is deprecated.
// upstream: staging/src/k8s.io/apiserver/pkg/endpoints/filters/warning.go AddWarning
pub(super) fn of(kind: &Kind, definitions: &DefinitionRegistry) -> Option<String> {
    if kind.strategy.is_some() {
        let served = definitions.find(&kind.group, &kind.plural)?;
        return served.definition.version(&kind.version)?.deprecation.clone();
    }
    match (&*kind.group, &*kind.version, &*kind.kind) {
        ("", "v1", "ComponentStatus") => Some("v1 ComponentStatus is deprecated in v1.19+".to_owned()),
        ("", "v1", "Endpoints") => {
            Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice".to_owned())
        }
        _ => None,
    }
}
