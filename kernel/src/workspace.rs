//! What one thread reuses from chunk to chunk and from call to call.

use std::cell::RefCell;

use crate::program::Pair;
use crate::scratch::{Scratch, Tail};
use crate::steps::Codecs;

#[derive(Default)]
pub struct Workspace {
    pub codecs: Codecs,
    /// Encoded bytes, as read.
    pub read: Scratch,
    /// One chunk's elements.
    pub elements: Scratch,
    /// Between the stages of a chain.
    pub pair: Pair,
    /// Encoded chunks of a batch, one after the other.
    pub tail: Tail,
}

impl Workspace {
    fn trim(&mut self) {
        self.codecs.trim();
        self.read.trim();
        self.elements.trim();
        self.pair.iter_mut().for_each(Scratch::trim);
        self.tail.trim();
    }
}

thread_local! {
    static WORKSPACE: RefCell<Workspace> = RefCell::default();
}

/// Lends this thread's workspace; what grew large is given back afterwards.
pub fn with<R>(work: impl FnOnce(&mut Workspace) -> R) -> R {
    WORKSPACE.with(|cell| match cell.try_borrow_mut() {
        Ok(mut workspace) => {
            let result = work(&mut workspace);
            workspace.trim();
            result
        }
        Err(_) => work(&mut Workspace::default()),
    })
}
