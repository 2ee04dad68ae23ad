//! A served CustomResourceDefinition: its kinds by version.

use std::sync::Arc;

use k3_api::{
    custom::{Conversion, Definition, DefinitionVersion},
    kinds::{Kind, KindRef, Persistence, Subresource},
    schema::{CustomType, ObjectType, schema},
    strategy::{SelectableField, Tree},
    text::SharedText,
};
use k3_storage::Revision;
use ring::digest::{SHA256, digest};
use serde_json::Value;

use super::conditions;

/// The verbs of custom resources, in discovery order.
const VERBS: [&str; 8] = [
    "delete",
    "deletecollection",
    "get",
    "list",
    "patch",
    "create",
    "update",
    "watch",
];
/// What can be done with a part of them.
const PART_VERBS: [&str; 3] = ["get", "patch", "update"];

/// A definition whose objects are served.
// upstream: staging/src/k8s.io/apiextensions-apiserver/pkg/apiserver/customresource_handler.go crdInfo, getOrCreateServingInfoFor
#[derive(Debug)]
pub(crate) struct ServedDefinition {
    /// The parsed definition.
    pub definition: Arc<Definition>,
    /// The kinds of its versions, in the order of the definition.
    kinds: Arc<[Arc<Kind>]>,
    /// Whether the definition is terminating: no new objects are created.
    pub terminating: bool,
    /// Whether the `Terminating` condition is set, which discovery reports.
    pub reports_terminating: bool,
    /// The revision since which the definition serves objects this way. Younger objects were written under it.
    pub since: Revision,
    /// A hash of everything that affects how objects are served.
    print: [u8; 32],
}

// --- ServedDefinition ---

impl ServedDefinition {
    /// Reads a definition; `None` if its objects are not served. `before` is what it said before.
    pub(super) fn read(crd: &Value, revision: Revision, before: Option<&Arc<Self>>) -> Option<Self> {
        let is_true = |kind: &str| conditions::is_true(crd, kind);
        if !is_true("NamesAccepted") && !is_true("Established") {
            return None;
        }
        let print = print(crd);
        let terminating = crd.at("metadata").has("deletionTimestamp") || is_true("Terminating");
        let reports_terminating = is_true("Terminating");
        if let Some(before) = before.filter(|before| before.print == print) {
            return Some(ServedDefinition {
                definition: Arc::clone(&before.definition),
                kinds: Arc::clone(&before.kinds),
                terminating,
                reports_terminating,
                since: before.since,
                print,
            });
        }
        let definition = Definition::read(crd)
            .inspect_err(|error| tracing::warn!(name = crd.at("metadata").text("name"), %error, "a definition cannot be served"))
            .ok()?;
        let accepted = crd.at("status").at("acceptedNames");
        let kinds = definition.versions.iter();
        let kinds = kinds.map(|version| Arc::new(kind(&definition, version, accepted)));
        Some(ServedDefinition {
            kinds: kinds.collect(),
            definition: Arc::new(definition),
            terminating,
            reports_terminating,
            since: revision,
            print,
        })
    }

    /// Whether objects are served in the same way.
    pub(super) fn serves_same_as(&self, other: &ServedDefinition) -> bool {
        self.print == other.print
    }

    /// The kind of a version, whether it is served or not.
    pub(crate) fn kind(&self, version: &str) -> Option<&Arc<Kind>> {
        self.kinds.iter().find(|kind| kind.version == version)
    }

    /// The kind of a version that is served.
    pub(crate) fn served(&self, version: &str) -> Option<KindRef> {
        let definition_version = self.definition.version(version)?;
        definition_version
            .served
            .then(|| self.kind(version).cloned().map(KindRef::Custom))?
    }

    /// The kind that objects are stored as.
    pub(crate) fn stored(&self) -> KindRef {
        let storage = &self.definition.storage().name;
        let kind = self.kind(storage).expect("every version has a kind");
        KindRef::Custom(Arc::clone(kind))
    }

    /// All kinds with their version of the definition.
    pub(crate) fn versions(&self) -> impl Iterator<Item = (&DefinitionVersion, &Arc<Kind>)> {
        self.definition.versions.iter().zip(self.kinds.iter())
    }

    /// Whether a webhook converts.
    pub(crate) fn has_webhook(&self) -> bool {
        matches!(self.definition.conversion, Conversion::Webhook(_))
    }

    /// The fields that objects can be selected by, in any version.
    pub(super) fn selectable(&self) -> Arc<[SelectableField]> {
        let mut all: Vec<SelectableField> = Vec::new();
        for field in self
            .kinds
            .iter()
            .flat_map(|kind| k3_api::strategy::for_kind(kind).selectable_fields())
        {
            if all.iter().all(|known| known.field != field.field) {
                all.push(field.clone());
            }
        }
        all.into()
    }
}

/// What decides how objects are served.
fn print(crd: &Value) -> [u8; 32] {
    let text = format!("{}\n{}", crd.at("spec"), crd.at("status").at("acceptedNames"));
    let mut print = [0; 32];
    print.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    print
}

fn kind(definition: &Definition, version: &DefinitionVersion, accepted: &Value) -> Kind {
    // Names that were accepted once stay until others are.
    let name = |field: &str, spec: &str| match accepted.text(field) {
        "" => SharedText::from(spec.to_owned()),
        name => SharedText::from(name.to_owned()),
    };
    let texts = |field: &str| -> Vec<SharedText> {
        let texts = accepted.texts(field);
        texts.map(|text| SharedText::from(text.to_owned())).collect()
    };
    let names = &definition.names;
    let group = SharedText::from(definition.group.clone());
    let kind = name("kind", &names.kind);
    let rules: Arc<dyn CustomType> = Arc::clone(&version.strategy) as _;
    let ty = ObjectType::Custom(rules);
    let own = SharedText::from(version.name.clone());
    let mut subresources = Vec::new();
    if version.has_status {
        subresources.push(Subresource {
            name: "status",
            group: group.clone(),
            version: own.clone(),
            kind: kind.clone(),
            verbs: PART_VERBS.to_vec(),
            ty: ty.clone(),
        });
    }
    if version.scale.is_some() {
        let scale = schema().kind("autoscaling", "v1", "Scale");
        subresources.push(Subresource {
            name: "scale",
            group: SharedText::Fixed("autoscaling"),
            version: SharedText::Fixed("v1"),
            kind: SharedText::Fixed("Scale"),
            verbs: PART_VERBS.to_vec(),
            ty: scale.expect("the table has the type of scales").into(),
        });
    }
    Kind {
        group,
        version: own,
        kind,
        plural: name("plural", &names.plural),
        singular: name("singular", &names.singular),
        short_names: texts("shortNames"),
        categories: texts("categories"),
        scope: definition.scope,
        persistence: Persistence::Stored,
        verbs: VERBS.to_vec(),
        subresources,
        ty,
        strategy: Some(Arc::clone(&version.strategy) as _),
    }
}
