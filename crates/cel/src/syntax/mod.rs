//! From text to tree.

pub(crate) mod ast;
mod lexer;
mod macros;
mod operand;
mod parser;
mod recovery;
mod token;
mod unescape;

pub(crate) use self::{
    macros::{ACCUMULATOR, Macros},
    parser::{each_child, parse},
};
