//! SharedInformerFactory of kinds: typed, slim, metadata only, and of kinds that are known only at run time.

use std::any::TypeId;

use kube::{
    Resource,
    api::{ApiResource, DynamicObject, TypeMeta},
};
use serde::de::DeserializeOwned;

use super::{
    factory::{InformerOptionsConflict, SharedInformerFactory},
    identity::{Identity, Wire},
    informer::Informer,
    options::InformerOptions,
    scope::InformerScope,
};
use crate::object::{MetadataOnly, Object, SlimObject};

impl SharedInformerFactory {
    /// The objects of a kind as they are.
    pub fn typed<K>(&self, scope: InformerScope) -> Informer<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        self.any(identity::<K, K>(scope, Wire::Objects, &()))
    }

    /// The same, with settings.
    pub fn typed_with<K>(
        &self,
        scope: InformerScope,
        options: InformerOptions<K>,
    ) -> Result<Informer<K>, InformerOptionsConflict>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        self.with(identity::<K, K>(scope, Wire::Objects, &()), options)
    }

    /// Of the objects of a kind what `P` reads, and some of their metadata.
    pub fn slim<K, P>(&self, scope: InformerScope) -> Informer<SlimObject<P>>
    where
        K: Resource<DynamicType = ()>,
        P: DeserializeOwned + Send + Sync + 'static,
    {
        self.any(identity::<K, SlimObject<P>>(scope, Wire::Objects, &()))
    }

    /// The same, with settings.
    pub fn slim_with<K, P>(
        &self,
        scope: InformerScope,
        options: InformerOptions<SlimObject<P>>,
    ) -> Result<Informer<SlimObject<P>>, InformerOptionsConflict>
    where
        K: Resource<DynamicType = ()>,
        P: DeserializeOwned + Send + Sync + 'static,
    {
        self.with(identity::<K, SlimObject<P>>(scope, Wire::Objects, &()), options)
    }

    /// Of the objects of a kind nothing but metadata; the server sends no more than that.
    pub fn metadata<K>(&self, scope: InformerScope) -> Informer<SlimObject<MetadataOnly>>
    where
        K: Resource<DynamicType = ()>,
    {
        self.any(identity::<K, SlimObject<MetadataOnly>>(
            scope,
            Wire::Metadata,
            &(),
        ))
    }

    /// The same, with settings.
    pub fn metadata_with<K>(
        &self,
        scope: InformerScope,
        options: InformerOptions<SlimObject<MetadataOnly>>,
    ) -> Result<Informer<SlimObject<MetadataOnly>>, InformerOptionsConflict>
    where
        K: Resource<DynamicType = ()>,
    {
        self.with(
            identity::<K, SlimObject<MetadataOnly>>(scope, Wire::Metadata, &()),
            options,
        )
    }

    /// The objects of a kind that is known only at run time. Each says what kind it is, which servers leave out of lists.
    pub fn dynamic(&self, resource: &ApiResource, scope: InformerScope) -> Informer<DynamicObject> {
        let identity = identity::<DynamicObject, DynamicObject>(scope, Wire::Objects, resource);
        self.find(&identity)
            .unwrap_or_else(|| self.make(identity, dynamic_options(resource, self.default_options())))
    }

    /// The same, with settings. Their transform comes on top.
    pub fn dynamic_with(
        &self,
        resource: &ApiResource,
        scope: InformerScope,
        options: InformerOptions<DynamicObject>,
    ) -> Result<Informer<DynamicObject>, InformerOptionsConflict> {
        let identity = identity::<DynamicObject, DynamicObject>(scope, Wire::Objects, resource);
        self.with(identity, dynamic_options(resource, options))
    }

    /// Of the objects of a kind that is known only at run time, what `P` reads and some of their metadata.
    pub fn dynamic_slim<P>(&self, resource: &ApiResource, scope: InformerScope) -> Informer<SlimObject<P>>
    where
        P: DeserializeOwned + Send + Sync + 'static,
    {
        self.any(identity::<DynamicObject, SlimObject<P>>(
            scope,
            Wire::Objects,
            resource,
        ))
    }

    /// The same, with settings.
    pub fn dynamic_slim_with<P>(
        &self,
        resource: &ApiResource,
        scope: InformerScope,
        options: InformerOptions<SlimObject<P>>,
    ) -> Result<Informer<SlimObject<P>>, InformerOptionsConflict>
    where
        P: DeserializeOwned + Send + Sync + 'static,
    {
        self.with(
            identity::<DynamicObject, SlimObject<P>>(scope, Wire::Objects, resource),
            options,
        )
    }

    /// Of the objects of a kind that is known only at run time, nothing but metadata.
    pub fn dynamic_metadata(
        &self,
        resource: &ApiResource,
        scope: InformerScope,
    ) -> Informer<SlimObject<MetadataOnly>> {
        self.any(identity::<DynamicObject, SlimObject<MetadataOnly>>(
            scope,
            Wire::Metadata,
            resource,
        ))
    }

    /// The same, with settings.
    pub fn dynamic_metadata_with(
        &self,
        resource: &ApiResource,
        scope: InformerScope,
        options: InformerOptions<SlimObject<MetadataOnly>>,
    ) -> Result<Informer<SlimObject<MetadataOnly>>, InformerOptionsConflict> {
        self.with(
            identity::<DynamicObject, SlimObject<MetadataOnly>>(scope, Wire::Metadata, resource),
            options,
        )
    }

    /// Of the objects of a kind what `T` reads, which brings its own idea of metadata.
    pub fn projected<T: Object + DeserializeOwned>(
        &self,
        resource: &ApiResource,
        scope: InformerScope,
    ) -> Informer<T> {
        self.any(identity::<DynamicObject, T>(scope, Wire::Objects, resource))
    }

    /// The same, with settings.
    pub fn projected_with<T: Object + DeserializeOwned>(
        &self,
        resource: &ApiResource,
        scope: InformerScope,
        options: InformerOptions<T>,
    ) -> Result<Informer<T>, InformerOptionsConflict> {
        self.with(
            identity::<DynamicObject, T>(scope, Wire::Objects, resource),
            options,
        )
    }

    /// As [`SharedInformerFactory::projected`], where `T` reads nothing but metadata; the server sends no more than that.
    pub fn projected_metadata<T: Object + DeserializeOwned>(
        &self,
        resource: &ApiResource,
        scope: InformerScope,
    ) -> Informer<T> {
        self.any(identity::<DynamicObject, T>(scope, Wire::Metadata, resource))
    }
}

fn identity<K: Resource, T: 'static>(scope: InformerScope, wire: Wire, kind: &K::DynamicType) -> Identity {
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
