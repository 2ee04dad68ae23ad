//! Labels: their syntax, and selectors of them.
//!
//! Promises: selectors are read, refused and written as clients of the API know it; parsing takes at most n log n, and matching
//! costs what the smaller of selector and labels costs, and allocates nothing.

// upstream: staging/src/k8s.io/apimachinery/pkg/labels/selector.go Selector, Requirement, NewRequirement, Matches

mod index;
pub mod key;
mod label_selector;
mod labels;
mod lexer;
mod node_selector;
mod parser;
mod requirement;
mod selector;
pub mod text;

pub use self::{
    label_selector::{LabelSelector, LabelSelectorError, SelectorRequirement},
    labels::Labels,
    node_selector::{NodeSelector, NodeSelectorTerm},
    parser::{ParseError, UnexpectedWord},
    requirement::{InvalidRequirement, Operator, Requirement, RequirementError},
    selector::Selector,
};
