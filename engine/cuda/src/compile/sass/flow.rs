//! Loops of a kernel, and ways of a thread through it: the instructions that it executes for a number of the result.

use super::KernelListing;
use super::counts::access_bytes;
use std::cmp::Reverse;

/// Instructions of a thread for each number that it stores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct InstructionRate {
    /// On the shortest way; none if that has fewer loops than the longest one, so that it passes by a sum.
    pub shortest: Option<f64>,
    /// On the longest way. Each loop counts once.
    pub longest: f64,
}

/// A way from an instruction to the end of the thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ThreadWay {
    instructions: u32,
    /// Bytes that it stores to global memory.
    stored: u32,
    /// Loops that lie on it.
    loops: u32,
}

/// Instructions of the longest loop, inner loops among them; 0 without a loop.
pub fn longest_loop(listing: &KernelListing) -> usize {
    find_loops(listing).iter().map(Vec::len).max().unwrap_or(0)
}

/// The cost of a number of `number` bytes on ways that store to global memory at the kernel's greatest width. None if
/// no way does.
///
/// Ways through a call of a subroutine are left out: the compiler calls for 64-bit division, for divisors that are
/// subnormal or huge, and for warps that have diverged. A guarded instruction counts as executed.
pub fn instruction_rate(listing: &KernelListing, number: u32) -> Option<InstructionRate> {
    let rate = |way: ThreadWay| f64::from(way.instructions) / (f64::from(way.stored) / f64::from(number));
    let longest = find_way(listing, |way| (way.instructions, way.stored))?;
    let shortest = find_way(listing, |way| (Reverse(way.instructions), way.stored))?;
    Some(InstructionRate {
        shortest: (shortest.loops == longest.loops).then(|| rate(shortest)),
        longest: rate(longest),
    })
}

/// The way from the first instruction that comes last in the order of `key`, branches backward left out.
fn find_way<K: Ord>(listing: &KernelListing, key: impl Fn(&ThreadWay) -> K) -> Option<ThreadWay> {
    let count = listing.instructions.len();
    let stored = |index: usize| access_bytes(&listing.instructions[index], "STG").unwrap_or(0);
    let widest = (0..count).map(stored).max().filter(|&bytes| bytes > 0)?;
    let mut loop_of = vec![None; count];
    for (number, members) in find_loops(listing).iter().enumerate() {
        members.iter().for_each(|&index| loop_of[index] = Some(number));
    }

    let order = post_order(&listing.successors);
    let mut position = vec![usize::MAX; count];
    order.iter().enumerate().for_each(|(at, &index)| position[index] = at);
    // For each instruction, the best way from there to the end: any, and one with a store of the greatest width.
    let mut best: Vec<[Option<ThreadWay>; 2]> = vec![[None; 2]; count];
    for &index in &order {
        let instruction = &listing.instructions[index];
        if instruction.subroutine().is_some() {
            continue;
        }
        let bytes = stored(index);
        let here = |rest: ThreadWay, next: Option<usize>| ThreadWay {
            instructions: rest.instructions + 1,
            stored: rest.stored + bytes,
            loops: rest.loops + u32::from(loop_of[index].is_some() && loop_of[index] != next),
        };
        for needed in [false, true] {
            let still_needed = needed && bytes < widest;
            let end = ThreadWay { instructions: 0, stored: 0, loops: 0 };
            let end = (instruction.name() == "EXIT" && !still_needed).then(|| here(end, None));
            let forward = listing.successors[index].iter().filter(|&&next| position[next] < position[index]);
            let way = |&next: &usize| Some(here(best[next][usize::from(still_needed)]?, loop_of[next]));
            let ways = forward.filter_map(way).chain(end).max_by_key(&key);
            best[index][usize::from(needed)] = ways;
        }
    }
    best.first()?[1]
}

/// The instructions of each loop that the kernel's first instruction leads to: its strongly connected parts.
fn find_loops(listing: &KernelListing) -> Vec<Vec<usize>> {
    let count = listing.instructions.len();
    let order = post_order(&listing.successors);
    let mut predecessors = vec![Vec::new(); count];
    for &index in &order {
        listing.successors[index].iter().for_each(|&next| predecessors[next].push(index));
    }
    // Kosaraju: backward from the instruction that the search left last, all that is reached belongs together.
    let mut part = vec![usize::MAX; count];
    let mut parts: Vec<Vec<usize>> = Vec::new();
    for &root in order.iter().rev() {
        let mut open = vec![root];
        let mut members = Vec::new();
        while let Some(index) = open.pop() {
            if part[index] == usize::MAX {
                part[index] = parts.len();
                members.push(index);
                open.extend(&predecessors[index]);
            }
        }
        parts.push(members);
    }
    let loops = |members: &Vec<usize>| match members[..] {
        [] => false,
        [only] => listing.successors[only].contains(&only),
        _ => true,
    };
    parts.into_iter().filter(loops).collect()
}

/// The instructions that the first one leads to, in the order in which a search in depth leaves them. All that follow
/// an instruction stand before it, but for branches backward.
fn post_order(successors: &[Vec<usize>]) -> Vec<usize> {
    let mut seen = vec![false; successors.len()];
    let mut order = Vec::new();
    let mut open = Vec::new();
    if let Some(first) = seen.first_mut() {
        *first = true;
        open.push((0, 0));
    }
    while let Some((index, done)) = open.last_mut() {
        match successors[*index].get(*done) {
            Some(&next) => {
                *done += 1;
                if !seen[next] {
                    seen[next] = true;
                    open.push((next, 0));
                }
            }
            None => {
                order.push(*index);
                open.pop();
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::super::parse_listings;
    use super::super::tests::example;
    use super::*;

    #[test]
    fn a_loop_counts_once_and_dead_code_never() {
        let listing = example();
        assert_eq!(longest_loop(&listing), 3);
        // 13 instructions, without the call; 16 bytes and 2 are stored, nine numbers.
        let InstructionRate { shortest, longest } = instruction_rate(&listing, 2).unwrap();
        // The shortest leaves out the two of a case; it passes through the same loop.
        assert_eq!((shortest, longest), (Some(11.0 / 9.0), 13.0 / 9.0));
    }

    #[test]
    fn the_shortest_way_still_stores_at_the_greatest_width() {
        let text = "\
.text.k:
        /*00*/              @P0 BRA `(.L_x_1) ;
        /*10*/              @P1 BRA `(.L_x_2) ;
        /*20*/                  MUFU.RCP R7, R8 ;
        /*30*/                  FADD R7, R8, R9 ;
.L_x_2:
        /*40*/                  STG.E.64 [R2.64], R4 ;
        /*50*/                  EXIT ;
.L_x_1:
        /*60*/                  STG.E [R2.64], R4 ;
        /*70*/                  EXIT ;
";
        let [listing] = parse_listings(text).unwrap().try_into().unwrap();
        let rate = instruction_rate(&listing, 4).unwrap();
        assert_eq!(rate, InstructionRate { shortest: Some(2.0), longest: 3.0 });
        assert_eq!(longest_loop(&listing), 0);
    }

    #[test]
    fn no_shortest_way_is_told_where_it_passes_by_a_loop() {
        let text = "\
.text.k:
        /*00*/              @P0 BRA `(.L_x_2) ;
.L_x_1:
        /*10*/              @P1 BRA `(.L_x_1) ;
.L_x_2:
        /*20*/                  STG.E [R2.64], R4 ;
        /*30*/              @P0 BRA `(.L_x_2) ;
        /*40*/                  EXIT ;
";
        let [listing] = parse_listings(text).unwrap().try_into().unwrap();
        assert_eq!(instruction_rate(&listing, 4), Some(InstructionRate { shortest: None, longest: 5.0 }));
    }

    #[test]
    fn an_outer_loop_has_its_inner_ones() {
        let text = "\
.text.k:
.L_x_0:
        /*00*/                  FADD R7, R8, R9 ;
.L_x_1:
        /*10*/              @P0 BRA `(.L_x_1) ;
        /*20*/              @P1 BRA `(.L_x_0) ;
        /*30*/                  EXIT ;
";
        let [listing] = parse_listings(text).unwrap().try_into().unwrap();
        assert_eq!(longest_loop(&listing), 3);
        assert_eq!(instruction_rate(&listing, 4), None);
    }
}
