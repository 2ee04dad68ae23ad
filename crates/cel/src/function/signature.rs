//! Which functions there are, and for what.

// upstream: vendor/github.com/google/cel-go/common/stdlib/standard.go Functions

use std::{
    collections::HashMap,
    sync::{Arc, LazyLock},
};

use crate::{decl::OpaqueType, environment::PatchTypes, types::Type};

/// A function: all that is called by one name.
#[derive(Debug)]
pub(crate) struct Function {
    /// Its overloads.
    pub(crate) overloads: Vec<Overload>,
}

/// One of a function's meanings.
#[derive(Debug)]
pub(crate) struct Overload {
    /// Its name; costs go by it.
    pub(crate) id: &'static str,
    /// Whether it is called as a method.
    pub(crate) method: bool,
    /// What it takes; unknown types are numbered from nothing.
    pub(crate) params: Vec<Type>,
    /// What it gives.
    pub(crate) result: Type,
    /// How many unknown types there are.
    pub(crate) unknown: u32,
}

const ORDERED: [&str; 8] = [
    "int",
    "uint",
    "double",
    "bool",
    "duration",
    "timestamp",
    "string",
    "bytes",
];
const SUMMED: [&str; 4] = ["int", "uint", "double", "duration"];

static FUNCTIONS: LazyLock<HashMap<&'static str, Function>> =
    LazyLock::new(|| read(include_str!("signatures.table")));
static PATCH_FUNCTIONS: LazyLock<HashMap<&'static str, Function>> =
    LazyLock::new(|| read("jsonpatch.escapeKey string_jsonpatch_escapeKey_string (string) string"));

/// The function of a name.
pub(crate) fn find(name: &str, patch_types: PatchTypes) -> Option<&'static Function> {
    FUNCTIONS.get(name).or_else(|| match patch_types {
        PatchTypes::Declared => PATCH_FUNCTIONS.get(name),
        PatchTypes::Undeclared => None,
    })
}

fn read(table: &'static str) -> HashMap<&'static str, Function> {
    let mut functions: HashMap<_, Function> = HashMap::new();
    for line in table
        .lines()
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
    {
        let (name, rest) = line.split_once(' ').expect("a line has a name");
        let (id, signature) = rest.split_once(' ').expect("a line has an overload");
        let overloads = &mut functions
            .entry(name)
            .or_insert_with(|| Function {
                overloads: Vec::new(),
            })
            .overloads;
        let (mark, types): (&str, &[&str]) = match () {
            () if signature.contains("$C") => ("$C", &ORDERED),
            () if signature.contains("$S") => ("$S", &SUMMED),
            () => ("", &[]),
        };
        if types.is_empty() {
            overloads.push(overload(id, signature));
        }
        for ty in types {
            // The table is read once: these few names live as long as the program.
            let id = Box::leak(id.replace(mark, ty).into_boxed_str());
            overloads.push(overload(id, &signature.replace(mark, ty)));
        }
    }
    functions
}

fn overload(id: &'static str, signature: &str) -> Overload {
    let mut reader = Reader {
        rest: signature,
        unknown: Vec::new(),
    };
    let method = reader.eat(".");
    assert!(reader.eat("("), "{signature}");
    let mut params = Vec::new();
    while !reader.eat(")") {
        params.push(reader.ty());
        reader.eat(", ");
    }
    reader.eat(" ");
    let result = reader.ty();
    let unknown = u32::try_from(reader.unknown.len()).expect("a few");
    Overload {
        id,
        method,
        params,
        result,
        unknown,
    }
}

struct Reader<'t> {
    rest: &'t str,
    unknown: Vec<char>,
}

impl Reader<'_> {
    fn eat(&mut self, text: &str) -> bool {
        let stripped = self.rest.strip_prefix(text);
        self.rest = stripped.unwrap_or(self.rest);
        stripped.is_some()
    }

    fn ty(&mut self) -> Type {
        let end = self.rest.find(['(', ')', ',']).unwrap_or(self.rest.len());
        let name = &self.rest[..end];
        self.rest = &self.rest[end..];
        match name {
            "dyn" => Type::Dyn,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "timestamp" => Type::Timestamp,
            "duration" => Type::Duration,
            "list" => Type::List(self.inner()),
            "type" => Type::Type(Some(self.inner())),
            "optional" => Type::Optional(self.inner()),
            "map" => {
                self.eat("(");
                let keys = self.ty();
                self.eat(", ");
                let values = self.ty();
                self.eat(")");
                Type::map(keys, values)
            }
            name => opaque(name).map_or_else(|| self.param(name), Type::Opaque),
        }
    }

    fn inner(&mut self) -> Arc<Type> {
        self.eat("(");
        let inner = self.ty();
        self.eat(")");
        Arc::new(inner)
    }

    fn param(&mut self, name: &str) -> Type {
        let letter = name.chars().next().expect("a type has a name");
        assert!(name.len() == 1 && letter.is_ascii_uppercase(), "{name}");
        let at = self
            .unknown
            .iter()
            .position(|known| *known == letter)
            .unwrap_or_else(|| {
                self.unknown.push(letter);
                self.unknown.len() - 1
            });
        Type::Param(u32::try_from(at).expect("a few"))
    }
}

fn opaque(name: &str) -> Option<OpaqueType> {
    [
        OpaqueType::Quantity,
        OpaqueType::Ip,
        OpaqueType::Cidr,
        OpaqueType::Url,
        OpaqueType::Semver,
        OpaqueType::Format,
        OpaqueType::Authorizer,
        OpaqueType::PathCheck,
        OpaqueType::GroupCheck,
        OpaqueType::ResourceCheck,
        OpaqueType::Decision,
    ]
    .into_iter()
    .find(|opaque| opaque.name() == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declares_overloads_of_functions() {
        let less = find("_<_", PatchTypes::Undeclared).expect("there");
        assert_eq!(less.overloads.len(), 14);
        let insert = &find("cel.@mapInsert", PatchTypes::Undeclared)
            .expect("there")
            .overloads[0];
        assert_eq!(
            (insert.params.len(), insert.unknown, insert.method),
            (3, 2, false)
        );
        assert_eq!(insert.result.to_string(), "map(_var0, _var1)");
        assert!(find("jsonpatch.escapeKey", PatchTypes::Undeclared).is_none());
        assert!(find("jsonpatch.escapeKey", PatchTypes::Declared).is_some());
    }

    /// What the evaluator does itself, since not all operands are evaluated.
    const OPERATORS: [&str; 14] = [
        "!_",
        "-_",
        "@in",
        "@not_strictly_false",
        "_!=_",
        "_&&_",
        "_==_",
        "_?._",
        "_?_:_",
        "_[?_]",
        "_[_]",
        "_||_",
        "or",
        "orValue",
    ];

    /// A function without code would be found missing by the first expression that calls it.
    #[test]
    fn every_declared_function_is_implemented() {
        for name in FUNCTIONS.keys().chain(PATCH_FUNCTIONS.keys()) {
            let implemented = crate::function::implementation(name).is_some();
            assert!(
                implemented || OPERATORS.contains(name),
                "{name} is declared, but not implemented"
            );
        }
    }

    /// Costs are found by the names of overloads.
    #[test]
    fn overloads_have_different_names_and_parameters() {
        let mut names = std::collections::BTreeSet::new();
        for (name, function) in FUNCTIONS.iter() {
            for overload in &function.overloads {
                assert!(names.insert(overload.id), "{name}: {} twice", overload.id);
            }
            for (at, overload) in function.overloads.iter().enumerate() {
                for other in &function.overloads[..at] {
                    let same = other.method == overload.method && other.params == overload.params;
                    assert!(!same, "{}: the same parameters as {}", overload.id, other.id);
                }
            }
        }
        assert!(names.len() > 200, "{}", names.len());
    }
}
