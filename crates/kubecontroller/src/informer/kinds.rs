//! Informers of kinds: typed, slim, metadata only, and of kinds that are known only at run time.

use std::any::TypeId;

use kube::{
    Resource,
    api::{ApiResource, DynamicObject, TypeMeta},
};
use serde::de::DeserializeOwned;

use super::{
    factory::{Conflict, Informers},
    handle::Informer,
    identity::{Identity, Wire},
    options::InformerOptions,
    scope::Scope,
};
use crate::object::{Bare, Object, Slim};

impl Informers {
    /// The objects of a kind as they are.
    pub fn typed<K>(&self, scope: Scope) -> Informer<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        self.any(identity::<K, K>(scope, Wire::Objects, &()))
    }

    /// The same, with settings.
    pub fn typed_with<K>(&self, scope: Scope, options: InformerOptions<K>) -> Result<Informer<K>, Conflict>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        self.with(identity::<K, K>(scope, Wire::Objects, &()), options)
    }

    /// Of the objects of a kind what `P` reads, and some of their metadata.
    pub fn slim<K, P>(&self, scope: Scope) -> Informer<Slim<P>>
    where
        K: Resource<DynamicType = ()>,
        P: DeserializeOwned + Send + Sync + 'static,
    {
        self.any(identity::<K, Slim<P>>(scope, Wire::Objects, &()))
    }

    /// The same, with settings.
    pub fn slim_with<K, P>(
        &self,
        scope: Scope,
        options: InformerOptions<Slim<P>>,
    ) -> Result<Informer<Slim<P>>, Conflict>
    where
        K: Resource<DynamicType = ()>,
        P: DeserializeOwned + Send + Sync + 'static,
    {
        self.with(identity::<K, Slim<P>>(scope, Wire::Objects, &()), options)
    }

    /// Of the objects of a kind nothing but metadata; the server sends no more than that.
    pub fn metadata<K>(&self, scope: Scope) -> Informer<Slim<Bare>>
    where
        K: Resource<DynamicType = ()>,
    {
        self.any(identity::<K, Slim<Bare>>(scope, Wire::Metadata, &()))
    }

    /// The same, with settings.
    pub fn metadata_with<K>(
        &self,
        scope: Scope,
        options: InformerOptions<Slim<Bare>>,
    ) -> Result<Informer<Slim<Bare>>, Conflict>
    where
        K: Resource<DynamicType = ()>,
    {
        self.with(identity::<K, Slim<Bare>>(scope, Wire::Metadata, &()), options)
    }

    /// The objects of a kind that is known only at run time. Each says what kind it is, which servers leave out of lists.
    pub fn dynamic(&self, resource: &ApiResource, scope: Scope) -> Informer<DynamicObject> {
        let identity = identity::<DynamicObject, DynamicObject>(scope, Wire::Objects, resource);
        self.find(&identity)
            .unwrap_or_else(|| self.make(identity, dynamic_options(resource, self.default_options())))
    }

    /// The same, with settings. Their transform comes on top.
    pub fn dynamic_with(
        &self,
        resource: &ApiResource,
        scope: Scope,
        options: InformerOptions<DynamicObject>,
    ) -> Result<Informer<DynamicObject>, Conflict> {
        let identity = identity::<DynamicObject, DynamicObject>(scope, Wire::Objects, resource);
        self.with(identity, dynamic_options(resource, options))
    }

    /// Of the objects of a kind that is known only at run time, what `P` reads and some of their metadata.
    pub fn dynamic_slim<P>(&self, resource: &ApiResource, scope: Scope) -> Informer<Slim<P>>
    where
        P: DeserializeOwned + Send + Sync + 'static,
    {
        self.any(identity::<DynamicObject, Slim<P>>(scope, Wire::Objects, resource))
    }

    /// The same, with settings.
    pub fn dynamic_slim_with<P>(
        &self,
        resource: &ApiResource,
        scope: Scope,
        options: InformerOptions<Slim<P>>,
    ) -> Result<Informer<Slim<P>>, Conflict>
    where
        P: DeserializeOwned + Send + Sync + 'static,
    {
        self.with(
            identity::<DynamicObject, Slim<P>>(scope, Wire::Objects, resource),
            options,
        )
    }

    /// Of the objects of a kind that is known only at run time, nothing but metadata.
    pub fn dynamic_metadata(&self, resource: &ApiResource, scope: Scope) -> Informer<Slim<Bare>> {
        self.any(identity::<DynamicObject, Slim<Bare>>(
            scope,
            Wire::Metadata,
            resource,
        ))
    }

    /// The same, with settings.
    pub fn dynamic_metadata_with(
        &self,
        resource: &ApiResource,
        scope: Scope,
        options: InformerOptions<Slim<Bare>>,
    ) -> Result<Informer<Slim<Bare>>, Conflict> {
        self.with(
            identity::<DynamicObject, Slim<Bare>>(scope, Wire::Metadata, resource),
            options,
        )
    }

    /// Of the objects of a kind what `T` reads, which brings its own idea of metadata.
    pub fn projected<T: Object + DeserializeOwned>(
        &self,
        resource: &ApiResource,
        scope: Scope,
    ) -> Informer<T> {
        self.any(identity::<DynamicObject, T>(scope, Wire::Objects, resource))
    }

    /// The same, with settings.
    pub fn projected_with<T: Object + DeserializeOwned>(
        &self,
        resource: &ApiResource,
        scope: Scope,
        options: InformerOptions<T>,
    ) -> Result<Informer<T>, Conflict> {
        self.with(
            identity::<DynamicObject, T>(scope, Wire::Objects, resource),
            options,
        )
    }

    /// As [`Informers::projected`], where `T` reads nothing but metadata; the server sends no more than that.
    pub fn projected_metadata<T: Object + DeserializeOwned>(
        &self,
        resource: &ApiResource,
        scope: Scope,
    ) -> Informer<T> {
        self.any(identity::<DynamicObject, T>(scope, Wire::Metadata, resource))
    }
}

fn identity<K: Resource, T: 'static>(scope: Scope, wire: Wire, kind: &K::DynamicType) -> Identity {
    Identity {
        path: K::url_path(kind, scope.namespace.as_deref()),
        scope,
        wire,
        stored: TypeId::of::<T>(),
    }
}

/// With the kind that lists leave out.
fn dynamic_options(
    resource: &ApiResource,
    mut options: InformerOptions<DynamicObject>,
) -> InformerOptions<DynamicObject> {
    let types = TypeMeta {
        api_version: resource.api_version.clone(),
        kind: resource.kind.clone(),
    };
    let next = options.transform.take();
    options.transform(move |object: &mut DynamicObject| {
        object.types.get_or_insert_with(|| types.clone());
        if let Some(next) = &next {
            next(object);
        }
    })
}
