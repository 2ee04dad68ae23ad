//! Claims of storage.

mod spec;

pub(crate) use self::spec::{
    Leniency, VOLUME_MODES, access_modes, class_name, default_spec, positive, validate_claim_spec,
    validate_claim_template,
};
