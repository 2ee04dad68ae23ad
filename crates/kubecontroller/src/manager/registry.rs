//! Reconcilers that are added to a program by linking them.
//!
//! A module that [registers](crate::register) a reconciler adds it to every program it is linked into: a program that links
//! many such modules is a hub, one that links a single module runs that reconciler alone.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;

use super::{
    ControllerSetting, ResourceMetadata,
    setup::{ErasedSetup, Setup},
};

/// A reconciler linked into the program.
pub struct Registration {
    name: &'static str,
    metadata: ResourceMetadata,
    make: fn() -> Box<dyn ErasedSetup>,
    crds: fn() -> Vec<CustomResourceDefinition>,
    settings: &'static [ControllerSetting],
}

inventory::collect!(Registration);

/// Adds a reconciler to every program that links this module.
///
/// Optional fields after `make`: `crds`, a function that returns the CRDs of the reconciler's resources, and `settings`, a list
/// of the [`ControllerSetting`](crate::manager::ControllerSetting)s it reads.
///
/// ```
/// use kubecontroller::manager::{BoxError, Manager, Registration, ResourceMetadata, Setup};
///
/// struct Dummy;
///
/// impl Setup for Dummy {
///     fn name(&self) -> &str { "dummy" }
///     fn resource(&self) -> &str { "dummies" }
///     async fn setup(&self, _: &mut Manager) -> Result<(), BoxError> { Ok(()) }
/// }
///
/// kubecontroller::register! {
///     name: "dummy",
///     metadata: ResourceMetadata::new("dummies", "Dummy", "demo.example.com/v1").prefix("dum"),
///     make: || Dummy,
/// }
///
/// assert_eq!(Registration::find("dum").unwrap().metadata().resource, "dummies");
/// ```
#[macro_export]
macro_rules! register {
    (name: $name:expr, metadata: $metadata:expr, make: $make:expr $(, $more:ident: $value:expr)* $(,)?) => {
        $crate::manager::inventory::submit! {
            $crate::manager::Registration::new($name, $metadata, || $crate::manager::erase(($make)()))
                $(.$more($value))*
        }
    };
}

// --- Registration ---

impl Registration {
    #[doc(hidden)]
    pub const fn new(
        name: &'static str,
        metadata: ResourceMetadata,
        make: fn() -> Box<dyn ErasedSetup>,
    ) -> Self {
        Registration {
            name,
            metadata,
            make,
            crds: Vec::new,
            settings: &[],
        }
    }

    #[doc(hidden)]
    #[must_use]
    pub const fn crds(mut self, crds: fn() -> Vec<CustomResourceDefinition>) -> Self {
        self.crds = crds;
        self
    }

    #[doc(hidden)]
    #[must_use]
    pub const fn settings(mut self, settings: &'static [ControllerSetting]) -> Self {
        self.settings = settings;
        self
    }

    /// All linked reconcilers, sorted by name.
    pub fn all() -> Vec<&'static Registration> {
        let mut all: Vec<_> = inventory::iter::<Registration>.into_iter().collect();
        all.sort_by_key(|registration| registration.name);
        all
    }

    /// The reconciler of the resource with this plural or short name.
    pub fn find(resource: &str) -> Option<&'static Registration> {
        Registration::all()
            .into_iter()
            .find(|registration| registration.metadata.is_called(resource))
    }

    /// The name of the reconciler.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The metadata of its resource.
    pub fn metadata(&self) -> &ResourceMetadata {
        &self.metadata
    }

    /// The CRDs of its resources.
    pub fn definitions(&self) -> Vec<CustomResourceDefinition> {
        (self.crds)()
    }

    /// The settings that it reads.
    pub fn own_settings(&self) -> &'static [ControllerSetting] {
        self.settings
    }

    pub(super) fn make(&self) -> Box<dyn ErasedSetup> {
        (self.make)()
    }
}

#[doc(hidden)]
pub fn erase(setup: impl Setup) -> Box<dyn ErasedSetup> {
    Box::new(setup)
}
