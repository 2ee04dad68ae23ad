//! Expressions as trees.
//!
//! Nodes live in one vector and name each other by number: a program is a few allocations, and dropping one does not
//! recurse.

// upstream: vendor/github.com/google/cel-go/common/ast/ast.go AST
// upstream: vendor/github.com/google/cel-go/common/ast/expr.go Expr, ComprehensionExpr

use std::sync::Arc;

/// The number of a node.
pub(crate) type Id = u32;

/// An expression: its nodes, and which of them is the whole.
#[derive(Debug, Default)]
pub(crate) struct Ast {
    /// All nodes. Some may no longer be part of the tree: macros replace them.
    pub(crate) nodes: Vec<Node>,
    /// The whole.
    pub(crate) root: Id,
}

/// A part of an expression.
#[derive(Debug)]
pub(crate) struct Node {
    /// Where it stands, counted in characters; of a call, where its operator or bracket stands.
    pub(crate) offset: u32,
    /// What it is.
    pub(crate) kind: Kind,
}

/// What a node is.
#[derive(Debug)]
pub(crate) enum Kind {
    /// What could not be read; there is an error for it.
    Broken,
    /// A constant.
    Literal(Literal),
    /// A name.
    Ident(Arc<str>),
    /// A field of something, or whether there is one.
    Select {
        /// Of what.
        operand: Id,
        /// Its name.
        field: Arc<str>,
        /// What is asked for.
        kind: SelectKind,
    },
    /// A call of a function or operator.
    Call {
        /// Its name.
        function: Arc<str>,
        /// What it is called on, if it is called as a method.
        target: Option<Id>,
        /// Its arguments.
        args: Vec<Id>,
    },
    /// A list.
    List {
        /// The items.
        items: Vec<Id>,
        /// As many as items, or none.
        optionalities: Vec<Optionality>,
    },
    /// A map.
    Map(Vec<Entry>),
    /// A message.
    Struct {
        /// Its type.
        name: Arc<str>,
        /// Its fields.
        fields: Vec<Init>,
    },
    /// A loop; every macro over lists and maps becomes one.
    Comprehension(Box<Comprehension>),
}

/// What a selection asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SelectKind {
    /// The field's value.
    Value,
    /// Whether there is such a field: `has(a.b)`.
    Test,
}

/// Whether a value must be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Optionality {
    /// It must.
    Required,
    /// It is an optional, and left out if that is empty: `[?a]`, `a.?b`.
    Optional,
}

/// An entry of a map.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Its key.
    pub(crate) key: Id,
    /// Its value.
    pub(crate) value: Id,
    /// Whether it is there only if the value is.
    pub(crate) optionality: Optionality,
}

/// A field of a message.
#[derive(Debug)]
pub(crate) struct Init {
    /// Where its colon stands.
    pub(crate) offset: u32,
    /// Its name.
    pub(crate) field: Arc<str>,
    /// Its value.
    pub(crate) value: Id,
    /// Whether it is there only if the value is.
    pub(crate) optionality: Optionality,
}

/// A loop that folds a list or a map into one value.
#[derive(Debug)]
pub(crate) struct Comprehension {
    /// What it iterates over.
    pub(crate) range: Id,
    /// The name of an item or key, or of the index or key if there are two names.
    pub(crate) var: Arc<str>,
    /// The name of the item or value, if there are two.
    pub(crate) var2: Option<Arc<str>>,
    /// The name of what is folded into.
    pub(crate) accu: Arc<str>,
    /// What it is at first.
    pub(crate) init: Id,
    /// Continues while this is true.
    pub(crate) condition: Id,
    /// What it is after each item.
    pub(crate) step: Id,
    /// The result.
    pub(crate) result: Id,
}

/// A constant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Arc<str>),
    Bytes(Arc<[u8]>),
}

// --- Ast ---

impl Ast {
    pub(crate) fn node(&self, id: Id) -> &Node {
        &self.nodes[id as usize]
    }

    pub(crate) fn kind(&self, id: Id) -> &Kind {
        &self.nodes[id as usize].kind
    }

    pub(crate) fn add(&mut self, offset: u32, kind: Kind) -> Id {
        let id = Id::try_from(self.nodes.len()).expect("a source has fewer characters than numbers");
        self.nodes.push(Node { offset, kind });
        id
    }
}
