//! The captures that the kernel knows: how many are in which state, and what is wrong with those that are not well.

use nix::unistd::{Uid, geteuid};
use serde_json::{Map, Value, json};

use super::capture_node::CaptureNode;
use super::inode::Node;
use crate::capture::State;

/// Of all faults' JSON in bytes: an attribute holds 64 KiB (`XATTR_SIZE_MAX`), and the counters stand beside them.
const FAULT_BYTES_MOST: usize = 48 * 1024;

/// Whose question it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asker {
    /// Root, or the user who mounted.
    Owner,
    /// Anybody else: names in folders that they may not enter are not for them.
    Other,
}

impl Asker {
    /// The user with the number `uid`.
    #[must_use]
    pub fn with_uid(uid: u32) -> Self {
        let uid = Uid::from_raw(uid);
        if uid.is_root() || uid == geteuid() {
            Self::Owner
        } else {
            Self::Other
        }
    }
}

/// What was counted. Captures are in it as they were last seen: nothing is looked at for it.
#[derive(Debug)]
pub struct Census {
    counts: [u64; State::ALL.len()],
    faults: Vec<Value>,
    fault_bytes: usize,
    /// Faults that found no room.
    left_out: u64,
}

impl Census {
    /// Counts `nodes`; keeps faults if `asker` may know them.
    pub fn of<'a>(nodes: impl IntoIterator<Item = &'a Node>, asker: Asker) -> Self {
        let mut census = Self {
            counts: [0; State::ALL.len()],
            faults: Vec::new(),
            fault_bytes: 0,
            left_out: 0,
        };
        for node in nodes {
            census.count(node, asker);
        }
        census
    }

    fn count(&mut self, node: &Node, asker: Asker) {
        let Some(facts) = node.capture().map(CaptureNode::facts) else {
            return;
        };
        for (state, count) in State::ALL.iter().zip(&mut self.counts) {
            *count += u64::from(*state == facts.state);
        }
        let is_fault = matches!(facts.state, State::Refused | State::Damaged);
        if asker == Asker::Other || !is_fault {
            return;
        }
        let fault = json!({
            "name": node.path().to_string_lossy(),
            "state": facts.state.as_str(),
            "error": facts.error.map(|error| error.to_string()),
        });
        let bytes = fault.to_string().len();
        if self.fault_bytes + bytes > FAULT_BYTES_MOST {
            self.left_out += 1;
        } else {
            self.fault_bytes += bytes;
            self.faults.push(fault);
        }
    }

    /// Captures by state.
    #[must_use]
    pub fn states(&self) -> Value {
        let count = |(state, count): (&State, &u64)| (state.as_str().to_owned(), json!(count));
        Value::Object(
            State::ALL
                .iter()
                .zip(&self.counts)
                .map(count)
                .collect::<Map<_, _>>(),
        )
    }

    /// The faults, as far as there is room, and how many more there are.
    #[must_use]
    pub fn into_faults(self) -> (Vec<Value>, u64) {
        (self.faults, self.left_out)
    }
}
