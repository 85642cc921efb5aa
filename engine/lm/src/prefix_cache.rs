//! The prompts of decoders in the key/value cache: a tree of token runs, each computed once and kept for later batches.
//!
//! ```text
//!   cache rows   | 0 .. 899 | 900 .. 960 | 961 .. 1010 |        few-shot examples, two questions
//!   tree           examples --+-- question A
//!                             +-- question B        one node for each run of tokens, one row for each token
//! ```
//!
//! A row holds the keys and values of a token after exactly the tokens on the path to it. By the device's contract they
//! have the same bits in every batch, so a kept row is what computing it again would give, and answers do not depend on
//! what was asked before.
//!
//! Nodes in use stay. The least recently used others leave when rows are needed, from the ends of paths inwards.

use crate::blocks::{BlockAllocator, RowBlock};
use crate::prefix::common_prefix;
use std::collections::{BTreeMap, BTreeSet};

/// A node's name; not used again while anything holds it.
pub(crate) type NodeId = usize;

/// The tree.
#[derive(Debug)]
pub(crate) struct PrefixCache {
    nodes: Vec<Option<PrefixNode>>,
    /// The first nodes of paths, by first token.
    roots: BTreeMap<u32, NodeId>,
    uses: u64,
    /// False: a node leaves with its last user.
    keeps: bool,
}

#[derive(Debug)]
struct PrefixNode {
    parent: Option<NodeId>,
    children: BTreeMap<u32, NodeId>,
    /// Its tokens, at least one.
    tokens: Vec<u32>,
    /// The rows of its tokens, in order.
    rows: Vec<RowBlock>,
    /// Paths that end here and are in use.
    users: u32,
    used: u64,
}

/// A prompt's place in the tree.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PrefixPath {
    /// The last node; `None` for the empty path.
    pub(crate) end: Option<NodeId>,
}

/// A run of tokens whose rows are to be computed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FreshRun {
    /// The tokens.
    pub(crate) tokens: Vec<u32>,
    /// The position of the first one.
    pub(crate) start: u32,
    /// The row of each.
    pub(crate) rows: Vec<u32>,
    /// The rows of the path up to the last of them.
    pub(crate) spans: Vec<(u32, u32)>,
}

impl PrefixCache {
    pub(crate) fn new(keeps: bool) -> Self {
        Self { nodes: Vec::new(), roots: BTreeMap::new(), uses: 0, keeps }
    }

    /// Enters `tokens`, and holds the path until [`release`](Self::release). Nodes that are new have rows and no
    /// content; they are added to `fresh`. `None` if there are not enough rows even without the kept paths.
    pub(crate) fn enter(
        &mut self,
        blocks: &mut BlockAllocator,
        tokens: &[u32],
        fresh: &mut BTreeSet<NodeId>,
    ) -> Option<PrefixPath> {
        self.uses += 1;
        let (mut end, mut known): (Option<NodeId>, usize) = (None, 0);
        while let Some(next) = tokens.get(known).and_then(|token| self.child(end, *token)) {
            let common = common_prefix(&self.node(next).tokens, &tokens[known..]);
            let next = if common < self.node(next).tokens.len() { self.split(next, common, fresh) } else { next };
            known += common;
            self.node_mut(next).used = self.uses;
            end = Some(next);
        }
        // Held before anything leaves.
        self.hold(end);
        if known < tokens.len() {
            let Some(rows) = self.take_rows(blocks, (tokens.len() - known) as u32) else {
                self.undo(blocks, PrefixPath { end }, fresh);
                return None;
            };
            let node = PrefixNode {
                parent: end,
                children: BTreeMap::new(),
                tokens: tokens[known..].to_vec(),
                rows,
                users: 1,
                used: self.uses,
            };
            let id = self.add(node);
            fresh.insert(id);
            self.children(end).insert(tokens[known], id);
            if let Some(parent) = end {
                self.node_mut(parent).users -= 1;
            }
            end = Some(id);
        }
        Some(PrefixPath { end })
    }

    /// Lets go of a path.
    pub(crate) fn release(&mut self, blocks: &mut BlockAllocator, path: PrefixPath) {
        if let Some(end) = path.end {
            self.node_mut(end).users -= 1;
            if !self.keeps {
                self.remove_unused(blocks, end);
            }
        }
    }

    /// Lets go of a path that was entered last and will not be computed: `fresh` loses what nobody else holds.
    pub(crate) fn undo(&mut self, blocks: &mut BlockAllocator, path: PrefixPath, fresh: &mut BTreeSet<NodeId>) {
        self.release(blocks, path);
        if let Some(end) = path.end
            && fresh.contains(&end)
            && let Some(node) = &self.nodes[end]
            && node.users == 0
            && node.children.is_empty()
        {
            self.remove(blocks, end);
        }
        // A name without a node may be given to another one.
        fresh.retain(|id| self.nodes[*id].is_some());
    }

    /// Removes nodes that were not computed; no path through them is held any more.
    pub(crate) fn forget(&mut self, blocks: &mut BlockAllocator, fresh: &BTreeSet<NodeId>) {
        let mut left: Vec<NodeId> = fresh.iter().copied().filter(|id| self.nodes[*id].is_some()).collect();
        while !left.is_empty() {
            let before = left.len();
            left.retain(|&id| {
                let (unused, ends) = (self.node(id).users == 0, self.node(id).children.is_empty());
                assert!(unused, "nobody holds what was not computed; this is a bug");
                if ends {
                    self.remove(blocks, id);
                }
                !ends
            });
            assert!(left.len() < before, "below nodes that were not computed there are only such; this is a bug");
        }
    }

    /// The rows of a path, in order.
    pub(crate) fn spans(&self, path: PrefixPath) -> Vec<(u32, u32)> {
        let mut nodes = Vec::new();
        let mut next = path.end;
        while let Some(id) = next {
            nodes.push(id);
            next = self.node(id).parent;
        }
        let mut spans: Vec<(u32, u32)> = Vec::new();
        for block in nodes.iter().rev().flat_map(|id| &self.node(*id).rows) {
            match spans.last_mut() {
                Some(last) if last.0 + last.1 == block.start => last.1 += block.rows,
                _ => spans.push((block.start, block.rows)),
            }
        }
        spans
    }

    /// What is to be computed for a fresh node.
    pub(crate) fn fresh_run(&self, id: NodeId) -> FreshRun {
        let node = self.node(id);
        let spans = self.spans(PrefixPath { end: Some(id) });
        let keys: u32 = spans.iter().map(|(_, rows)| rows).sum();
        let rows = node.rows.iter().flat_map(|block| block.start..block.start + block.rows).collect();
        FreshRun { tokens: node.tokens.clone(), start: keys - node.tokens.len() as u32, rows, spans }
    }

    fn node(&self, id: NodeId) -> &PrefixNode {
        self.nodes[id].as_ref().expect("a node that is in the tree; this is a bug")
    }

    fn node_mut(&mut self, id: NodeId) -> &mut PrefixNode {
        self.nodes[id].as_mut().expect("a node that is in the tree; this is a bug")
    }

    fn children(&mut self, parent: Option<NodeId>) -> &mut BTreeMap<u32, NodeId> {
        match parent {
            Some(parent) => &mut self.node_mut(parent).children,
            None => &mut self.roots,
        }
    }

    fn child(&self, parent: Option<NodeId>, token: u32) -> Option<NodeId> {
        parent.map_or(&self.roots, |parent| &self.node(parent).children).get(&token).copied()
    }

    fn hold(&mut self, end: Option<NodeId>) {
        if let Some(end) = end {
            self.node_mut(end).users += 1;
        }
    }

    fn add(&mut self, node: PrefixNode) -> NodeId {
        match self.nodes.iter().position(Option::is_none) {
            Some(id) => {
                self.nodes[id] = Some(node);
                id
            }
            None => {
                self.nodes.push(Some(node));
                self.nodes.len() - 1
            }
        }
    }

    /// Cuts a node after `at` of its tokens. The second part keeps the name, for the paths that end there. Returns the
    /// first part.
    fn split(&mut self, id: NodeId, at: usize, fresh: &mut BTreeSet<NodeId>) -> NodeId {
        let node = self.node_mut(id);
        let (parent, used) = (node.parent, node.used);
        let rest = node.tokens.split_off(at);
        let first = std::mem::replace(&mut node.tokens, rest);
        let (before, after) = split_rows(std::mem::take(&mut node.rows), at as u32);
        node.rows = after;
        let (begins, goes_on) = (first[0], node.tokens[0]);
        let children = BTreeMap::from([(goes_on, id)]);
        let head = self.add(PrefixNode { parent, children, tokens: first, rows: before, users: 0, used });
        self.node_mut(id).parent = Some(head);
        self.children(parent).insert(begins, head);
        if fresh.contains(&id) {
            fresh.insert(head);
        }
        head
    }

    /// `rows` rows for the tree, or outside it; kept paths make room. They need not be neighbours: what is held may lie
    /// anywhere.
    pub(crate) fn take_rows(&mut self, blocks: &mut BlockAllocator, rows: u32) -> Option<Vec<RowBlock>> {
        loop {
            if let Some(found) = blocks.take_parts(rows) {
                return Some(found);
            }
            if !self.evict(blocks) {
                return None;
            }
        }
    }

    /// Removes the least recently used end of a path that nobody holds. False if there is none.
    fn evict(&mut self, blocks: &mut BlockAllocator) -> bool {
        let unused = |(id, node): (NodeId, &Option<PrefixNode>)| {
            let node = node.as_ref()?;
            (node.users == 0 && node.children.is_empty()).then_some((node.used, id))
        };
        let Some((_, id)) = self.nodes.iter().enumerate().filter_map(unused).min() else { return false };
        self.remove(blocks, id);
        true
    }

    fn remove_unused(&mut self, blocks: &mut BlockAllocator, end: NodeId) {
        let mut next = Some(end);
        while let Some(id) = next {
            let node = self.node(id);
            if node.users > 0 || !node.children.is_empty() {
                break;
            }
            next = node.parent;
            self.remove(blocks, id);
        }
    }

    fn remove(&mut self, blocks: &mut BlockAllocator, id: NodeId) {
        let node = self.nodes[id].take().expect("a node that is in the tree; this is a bug");
        self.children(node.parent).remove(&node.tokens[0]);
        node.rows.into_iter().for_each(|block| blocks.give_back(block));
    }
}

/// The first `at` rows, and the others.
fn split_rows(rows: Vec<RowBlock>, at: u32) -> (Vec<RowBlock>, Vec<RowBlock>) {
    let (mut before, mut after, mut left) = (Vec::new(), Vec::new(), at);
    for RowBlock { start, rows } in rows {
        let first = rows.min(left);
        left -= first;
        before.extend((first > 0).then_some(RowBlock { start, rows: first }));
        after.extend((first < rows).then_some(RowBlock { start: start + first, rows: rows - first }));
    }
    (before, after)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    const ROWS: u32 = 24;

    /// The tree over a cache that says of each row which token it has, after which others.
    struct Simulated {
        cache: PrefixCache,
        blocks: BlockAllocator,
        content: HashMap<u32, Vec<u32>>,
    }

    impl Simulated {
        fn new(keeps: bool) -> Self {
            Self { cache: PrefixCache::new(keeps), blocks: BlockAllocator::new(ROWS), content: HashMap::new() }
        }

        /// Enters a prompt and computes what is fresh; returns the path and the number of computed rows.
        fn enter(&mut self, tokens: &[u32]) -> Option<(PrefixPath, usize)> {
            let mut fresh = BTreeSet::new();
            let path = self.cache.enter(&mut self.blocks, tokens, &mut fresh)?;
            let mut computed = 0;
            let mut runs: Vec<FreshRun> = fresh.iter().map(|id| self.cache.fresh_run(*id)).collect();
            runs.sort_by_key(|run| run.start);
            for run in runs {
                let before: Vec<u32> = rows_of(&run.spans).take(run.start as usize).collect();
                let mut past = before.last().map_or(Vec::new(), |row| self.content[row].clone());
                assert_eq!(past.len(), run.start as usize);
                for (token, row) in run.tokens.iter().zip(&run.rows) {
                    past.push(*token);
                    self.content.insert(*row, past.clone());
                    computed += 1;
                }
            }
            Some((path, computed))
        }

        fn check(&self, path: PrefixPath, tokens: &[u32]) {
            let rows: Vec<u32> = rows_of(&self.cache.spans(path)).collect();
            assert_eq!(rows.len(), tokens.len());
            for (n, row) in rows.iter().enumerate() {
                assert_eq!(self.content[row], tokens[..=n], "row {row}");
            }
        }
    }

    fn rows_of(spans: &[(u32, u32)]) -> impl Iterator<Item = u32> + '_ {
        spans.iter().flat_map(|&(start, rows)| start..start + rows)
    }

    #[test]
    fn a_shared_beginning_is_computed_once_and_leaves_last() {
        let mut simulated = Simulated::new(true);
        let (first, computed) = simulated.enter(&[1, 2, 3, 4, 5]).unwrap();
        assert_eq!(computed, 5);
        simulated.cache.release(&mut simulated.blocks, first);
        let (second, computed) = simulated.enter(&[1, 2, 3, 9]).unwrap();
        assert_eq!(computed, 1);
        simulated.check(second, &[1, 2, 3, 9]);
        // Of 24 rows 18 are somebody's, 4 are of the path that is held; only the end of the first path can leave.
        let block = simulated.cache.take_rows(&mut simulated.blocks, ROWS - 6).unwrap();
        let (third, computed) = simulated.enter(&[7, 8]).unwrap();
        assert_eq!(computed, 2);
        assert!(simulated.enter(&[6]).is_none());
        simulated.check(second, &[1, 2, 3, 9]);
        simulated.check(third, &[7, 8]);
        block.into_iter().for_each(|block| simulated.blocks.give_back(block));
        simulated.cache.release(&mut simulated.blocks, second);
        assert_eq!(simulated.enter(&[1, 2, 3, 9]).unwrap().1, 0);
        assert_eq!(simulated.enter(&[1, 2, 3, 4, 5]).unwrap().1, 2, "its end had left");
    }

    #[test]
    fn nothing_is_kept_without_keeping() {
        let mut simulated = Simulated::new(false);
        let (path, _) = simulated.enter(&[1, 2, 3]).unwrap();
        let (longer, computed) = simulated.enter(&[1, 2, 3, 4]).unwrap();
        assert_eq!(computed, 1, "in use at the same time");
        simulated.cache.release(&mut simulated.blocks, path);
        simulated.cache.release(&mut simulated.blocks, longer);
        assert_eq!(simulated.blocks.take(ROWS), Some(RowBlock { start: 0, rows: ROWS }));
    }

    proptest! {
        /// Prompts come and go in any order, with little room: held paths stay right, nothing is computed twice while
        /// it is there, and all rows come back.
        #[test]
        fn paths_in_use_hold_their_own_tokens(
            keeps: bool,
            steps in prop::collection::vec((0usize..4, prop::collection::vec(0u32..3, 1..9)), 1..60),
        ) {
            let mut simulated = Simulated::new(keeps);
            let mut held: Vec<(PrefixPath, Vec<u32>)> = Vec::new();
            let mut own: Vec<RowBlock> = Vec::new();
            for (action, tokens) in steps {
                match action {
                    0 if !held.is_empty() => {
                        let (path, _) = held.swap_remove(tokens.len() % held.len());
                        simulated.cache.release(&mut simulated.blocks, path);
                    }
                    1 => match own.pop() {
                        Some(block) if tokens.len() > 4 => simulated.blocks.give_back(block),
                        kept => {
                            own.extend(kept);
                            let rows = tokens.len() as u32;
                            own.extend(simulated.cache.take_rows(&mut simulated.blocks, rows).into_iter().flatten());
                        }
                    },
                    _ => {
                        let known = held.iter().map(|(_, other)| common_prefix(other, &tokens)).max().unwrap_or(0);
                        if let Some((path, computed)) = simulated.enter(&tokens) {
                            prop_assert!(computed <= tokens.len() - known);
                            held.push((path, tokens));
                        }
                    }
                }
                held.iter().for_each(|(path, tokens)| simulated.check(*path, tokens));
                let of_tree: BTreeSet<u32> =
                    held.iter().flat_map(|(path, _)| rows_of(&simulated.cache.spans(*path)).collect::<Vec<_>>()).collect();
                let own_rows = own.iter().flat_map(|block| block.start..block.start + block.rows);
                prop_assert!(own_rows.into_iter().all(|row| !of_tree.contains(&row)));
            }
            held.into_iter().for_each(|(path, _)| simulated.cache.release(&mut simulated.blocks, path));
            own.into_iter().for_each(|block| simulated.blocks.give_back(block));
            prop_assert!(simulated.cache.take_rows(&mut simulated.blocks, ROWS).is_some(), "all rows come back");
        }

        /// An admission whose pass failed leaves no trace.
        #[test]
        fn what_was_not_computed_is_forgotten(
            kept in prop::collection::vec(prop::collection::vec(0u32..3, 1..6), 0..3),
            failed in prop::collection::vec(prop::collection::vec(0u32..3, 1..6), 1..4),
        ) {
            let mut simulated = Simulated::new(true);
            for tokens in &kept {
                let (path, _) = simulated.enter(tokens).expect("room");
                simulated.cache.release(&mut simulated.blocks, path);
            }
            let mut fresh = BTreeSet::new();
            let mut entered = Vec::new();
            for (nth, tokens) in failed.iter().enumerate() {
                if let Some(path) = simulated.cache.enter(&mut simulated.blocks, tokens, &mut fresh) {
                    match nth % 3 {
                        2 => simulated.cache.undo(&mut simulated.blocks, path, &mut fresh),
                        _ => entered.push(path),
                    }
                }
            }
            entered.into_iter().for_each(|path| simulated.cache.release(&mut simulated.blocks, path));
            simulated.cache.forget(&mut simulated.blocks, &fresh);
            for tokens in failed.iter().chain(&kept) {
                let (path, _) = simulated.enter(tokens).expect("room");
                simulated.check(path, tokens);
                simulated.cache.release(&mut simulated.blocks, path);
            }
        }
    }
}
