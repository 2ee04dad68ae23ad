//! Paths that are no resources: health, metrics, discovery, OpenAPI, and what other parts of the process add.
//!
//! ```text
//! endpoints        all of them, by path
//! health           health endpoints
//! issuer           the OIDC discovery documents of the service-account issuer
//! extra_endpoints  metrics, documents and settings of other parts of the process
//! ```

mod endpoints;
mod extra_endpoints;
mod health;
mod issuer;

pub(super) use self::health::is_asked_for as is_health_endpoint;
pub(crate) use self::{
    endpoints::{ApiDocuments, NonResourceEndpoints},
    extra_endpoints::{ExtraEndpoints, ProcessSetting, SettingError},
};
