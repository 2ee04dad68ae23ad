//! The constructors of [`SharedInformerFactory`]: typed, slim, metadata only, and for kinds that are known only at run time.

use std::any::TypeId;

use kube::{
    Resource,
    api::{ApiResource, DynamicObject, TypeMeta},
};
use serde::de::DeserializeOwned;

use super::{
    factory::{InformerOptionsConflict, SharedInformerFactory},
    identity::{InformerIdentity, WireFormat},
    options::InformerOptions,
    scope::InformerScope,
    shared_informer::Informer,
};
use crate::object::{MetadataOnly, Object, SlimObject};

impl SharedInformerFactory {
    /// An informer that stores objects of a kind as `K`, complete.
    pub fn typed<K>(&self, scope: InformerScope) -> Informer<K>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        self.get_or_create(identity::<K, K>(scope, WireFormat::Objects, &()))
    }

    /// Like [`typed`](Self::typed), with options. Fails if the informer exists with other options.
    pub fn typed_with<K>(
        &self,
        scope: InformerScope,
        options: InformerOptions<K>,
    ) -> Result<Informer<K>, InformerOptionsConflict>
    where
        K: Resource<DynamicType = ()> + DeserializeOwned + Send + Sync + 'static,
    {
        self.get_or_create_with(identity::<K, K>(scope, WireFormat::Objects, &()), options)
    }

    /// An informer that stores [`SlimObject`]s: a part of the metadata and the fields that `P` deserializes. It takes a fraction
    /// of the memory of [`typed`](Self::typed), since everything else is skipped while decoding.
    pub fn slim<K, P>(&self, scope: InformerScope) -> Informer<SlimObject<P>>
    where
        K: Resource<DynamicType = ()>,
        P: DeserializeOwned + Send + Sync + 'static,
    {
        self.get_or_create(identity::<K, SlimObject<P>>(scope, WireFormat::Objects, &()))
    }

    /// Like [`slim`](Self::slim), with options. Fails if the informer exists with other options.
    pub fn slim_with<K, P>(
        &self,
        scope: InformerScope,
        options: InformerOptions<SlimObject<P>>,
    ) -> Result<Informer<SlimObject<P>>, InformerOptionsConflict>
    where
        K: Resource<DynamicType = ()>,
        P: DeserializeOwned + Send + Sync + 'static,
    {
        self.get_or_create_with(
            identity::<K, SlimObject<P>>(scope, WireFormat::Objects, &()),
            options,
        )
    }

    /// An informer that stores only metadata. The server sends `PartialObjectMetadata`, so this also saves traffic.
    pub fn metadata<K>(&self, scope: InformerScope) -> Informer<SlimObject<MetadataOnly>>
    where
        K: Resource<DynamicType = ()>,
    {
        self.get_or_create(identity::<K, SlimObject<MetadataOnly>>(
            scope,
            WireFormat::Metadata,
            &(),
        ))
    }

    /// Like [`metadata`](Self::metadata), with options. Fails if the informer exists with other options.
    pub fn metadata_with<K>(
        &self,
        scope: InformerScope,
        options: InformerOptions<SlimObject<MetadataOnly>>,
    ) -> Result<Informer<SlimObject<MetadataOnly>>, InformerOptionsConflict>
    where
        K: Resource<DynamicType = ()>,
    {
        self.get_or_create_with(
            identity::<K, SlimObject<MetadataOnly>>(scope, WireFormat::Metadata, &()),
            options,
        )
    }

    /// An informer for a kind that is known only at run time. `types` is set in every object; servers omit it in lists.
    pub fn dynamic(&self, resource: &ApiResource, scope: InformerScope) -> Informer<DynamicObject> {
        let identity = identity::<DynamicObject, DynamicObject>(scope, WireFormat::Objects, resource);
        self.find(&identity)
            .unwrap_or_else(|| self.create(identity, dynamic_options(resource, self.default_options())))
    }

    /// Like [`dynamic`](Self::dynamic), with options. Their transform runs after `types` is set.
    pub fn dynamic_with(
        &self,
        resource: &ApiResource,
        scope: InformerScope,
        options: InformerOptions<DynamicObject>,
    ) -> Result<Informer<DynamicObject>, InformerOptionsConflict> {
        let identity = identity::<DynamicObject, DynamicObject>(scope, WireFormat::Objects, resource);
        self.get_or_create_with(identity, dynamic_options(resource, options))
    }

    /// Like [`slim`](Self::slim), for a kind that is known only at run time.
    pub fn dynamic_slim<P>(&self, resource: &ApiResource, scope: InformerScope) -> Informer<SlimObject<P>>
    where
        P: DeserializeOwned + Send + Sync + 'static,
    {
        self.get_or_create(identity::<DynamicObject, SlimObject<P>>(
            scope,
            WireFormat::Objects,
            resource,
        ))
    }

    /// Like [`dynamic_slim`](Self::dynamic_slim), with options.
    pub fn dynamic_slim_with<P>(
        &self,
        resource: &ApiResource,
        scope: InformerScope,
        options: InformerOptions<SlimObject<P>>,
    ) -> Result<Informer<SlimObject<P>>, InformerOptionsConflict>
    where
        P: DeserializeOwned + Send + Sync + 'static,
    {
        self.get_or_create_with(
            identity::<DynamicObject, SlimObject<P>>(scope, WireFormat::Objects, resource),
            options,
        )
    }

    /// Like [`metadata`](Self::metadata), for a kind that is known only at run time.
    pub fn dynamic_metadata(
        &self,
        resource: &ApiResource,
        scope: InformerScope,
    ) -> Informer<SlimObject<MetadataOnly>> {
        self.get_or_create(identity::<DynamicObject, SlimObject<MetadataOnly>>(
            scope,
            WireFormat::Metadata,
            resource,
        ))
    }

    /// Like [`dynamic_metadata`](Self::dynamic_metadata), with options.
    pub fn dynamic_metadata_with(
        &self,
        resource: &ApiResource,
        scope: InformerScope,
        options: InformerOptions<SlimObject<MetadataOnly>>,
    ) -> Result<Informer<SlimObject<MetadataOnly>>, InformerOptionsConflict> {
        self.get_or_create_with(
            identity::<DynamicObject, SlimObject<MetadataOnly>>(scope, WireFormat::Metadata, resource),
            options,
        )
    }

    /// An informer that stores `T`, a type with its own [`Object`] implementation, such as a projection of a kind.
    pub fn projected<T: Object + DeserializeOwned>(
        &self,
        resource: &ApiResource,
        scope: InformerScope,
    ) -> Informer<T> {
        self.get_or_create(identity::<DynamicObject, T>(scope, WireFormat::Objects, resource))
    }

    /// Like [`projected`](Self::projected), with options.
    pub fn projected_with<T: Object + DeserializeOwned>(
        &self,
        resource: &ApiResource,
        scope: InformerScope,
        options: InformerOptions<T>,
    ) -> Result<Informer<T>, InformerOptionsConflict> {
        self.get_or_create_with(
            identity::<DynamicObject, T>(scope, WireFormat::Objects, resource),
            options,
        )
    }

    /// Like [`projected`](Self::projected), for a `T` that reads only metadata. The server sends `PartialObjectMetadata`.
    pub fn projected_metadata<T: Object + DeserializeOwned>(
        &self,
        resource: &ApiResource,
        scope: InformerScope,
    ) -> Informer<T> {
        self.get_or_create(identity::<DynamicObject, T>(
            scope,
            WireFormat::Metadata,
            resource,
        ))
    }
}

fn identity<K: Resource, T: 'static>(
    scope: InformerScope,
    wire_format: WireFormat,
    kind: &K::DynamicType,
) -> InformerIdentity {
    InformerIdentity {
        path: K::url_path(kind, scope.namespace.as_deref()),
        scope,
        wire_format,
        stored_type: TypeId::of::<T>(),
    }
}

/// Adds a transform that sets `types`.
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
