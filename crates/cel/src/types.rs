//! The types of expressions.

// upstream: vendor/github.com/google/cel-go/common/types/types.go Type, Kind
// upstream: vendor/github.com/google/cel-go/checker/format.go FormatCELType

use std::{fmt, sync::Arc};

use crate::decl::{ObjectDeclType, OpaqueType};

/// A type. Shown as clients know it: `int`, `list(string)`.
#[derive(Clone, Debug)]
pub enum Type {
    /// Anything; what it is turns out when an expression runs.
    Dyn,
    /// Of what is wrong already.
    Error,
    /// Of null.
    Null,
    /// Of truths.
    Bool,
    /// Of whole numbers.
    Int,
    /// Of whole numbers that are not negative.
    Uint,
    /// Of numbers.
    Double,
    /// Of texts.
    String,
    /// Of bytes.
    Bytes,
    /// Of times.
    Timestamp,
    /// Of spans of time.
    Duration,
    /// Of types, perhaps of one.
    Type(Option<Arc<Type>>),
    /// Of lists.
    List(Arc<Type>),
    /// Of maps.
    Map(Arc<Type>, Arc<Type>),
    /// Of declared objects.
    Object(Arc<ObjectDeclType>),
    /// Of messages that expressions make: parts of an object to be applied, or changes to one.
    Message(Arc<str>),
    /// Of what has functions of its own.
    Opaque(OpaqueType),
    /// Of what may be absent.
    Optional(Arc<Type>),
    /// Not known yet.
    Param(u32),
}

impl Type {
    /// A list of something.
    pub fn list(items: Type) -> Self {
        Type::List(Arc::new(items))
    }

    /// A map from something to something.
    pub fn map(keys: Type, values: Type) -> Self {
        Type::Map(Arc::new(keys), Arc::new(values))
    }

    /// Whether values of it have a name alone and no parts: null is one of them.
    pub(crate) fn is_struct(&self) -> bool {
        match self {
            Type::Object(_) | Type::Message(_) => true,
            Type::Opaque(opaque) => !matches!(opaque, OpaqueType::Ip | OpaqueType::Cidr),
            _ => false,
        }
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    /// As errors of the checker show it.
    pub(crate) fn short(&self) -> TypeDisplay<'_> {
        TypeDisplay {
            ty: self,
            short: true,
        }
    }
}

impl PartialEq for Type {
    fn eq(&self, other: &Self) -> bool {
        use Type as T;
        match (self, other) {
            (T::Dyn, T::Dyn)
            | (T::Error, T::Error)
            | (T::Null, T::Null)
            | (T::Bool, T::Bool)
            | (T::Int, T::Int)
            | (T::Uint, T::Uint)
            | (T::Double, T::Double)
            | (T::String, T::String)
            | (T::Bytes, T::Bytes)
            | (T::Timestamp, T::Timestamp)
            | (T::Duration, T::Duration) => true,
            (T::Type(a), T::Type(b)) => a == b,
            (T::List(a), T::List(b)) | (T::Optional(a), T::Optional(b)) => a == b,
            (T::Map(a, b), T::Map(c, d)) => a == c && b == d,
            (T::Object(a), T::Object(b)) => Arc::ptr_eq(a, b) || a.name() == b.name(),
            (T::Message(a), T::Message(b)) => a == b,
            (T::Opaque(a), T::Opaque(b)) => a == b,
            (T::Param(a), T::Param(b)) => a == b,
            _ => false,
        }
    }
}

impl Eq for Type {}

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        TypeDisplay {
            ty: self,
            short: false,
        }
        .fmt(f)
    }
}

/// A type as text; there are two ways.
pub(crate) struct TypeDisplay<'t> {
    ty: &'t Type,
    short: bool,
}

impl fmt::Display for TypeDisplay<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with = |ty| TypeDisplay {
            ty,
            short: self.short,
        };
        f.write_str(match self.ty {
            Type::Dyn => "dyn",
            Type::Error if self.short => "!error!",
            Type::Error => "error",
            Type::Null if self.short => "null",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Timestamp if self.short => "timestamp",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::Duration if self.short => "duration",
            Type::Duration => "google.protobuf.Duration",
            Type::Type(None) => "type",
            Type::Type(Some(inner)) => return write!(f, "type({})", with(inner)),
            Type::List(items) => return write!(f, "list({})", with(items)),
            Type::Map(keys, values) => return write!(f, "map({}, {})", with(keys), with(values)),
            Type::Object(object) => object.name(),
            Type::Message(name) => name,
            Type::Opaque(opaque) => opaque.name(),
            Type::Optional(inner) => return write!(f, "optional_type({})", with(inner)),
            Type::Param(number) => return write!(f, "_var{number}"),
        })
    }
}

impl OpaqueType {
    /// The name of its type.
    pub fn name(self) -> &'static str {
        match self {
            OpaqueType::Quantity => "kubernetes.Quantity",
            OpaqueType::Ip => "net.IP",
            OpaqueType::Cidr => "net.CIDR",
            OpaqueType::Url => "kubernetes.URL",
            OpaqueType::Semver => "kubernetes.Semver",
            OpaqueType::Format => "kubernetes.NamedFormat",
            OpaqueType::Authorizer => "kubernetes.authorization.Authorizer",
            OpaqueType::PathCheck => "kubernetes.authorization.PathCheck",
            OpaqueType::GroupCheck => "kubernetes.authorization.GroupCheck",
            OpaqueType::ResourceCheck => "kubernetes.authorization.ResourceCheck",
            OpaqueType::Decision => "kubernetes.authorization.Decision",
        }
    }
}
