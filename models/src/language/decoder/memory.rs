//! How much memory a decoder will need, and how much there is: better refused than killed.

use std::fs;
use std::path::{Path, PathBuf};

use super::Capacity;
use super::error::DecoderError;
use crate::language::folder::LanguageFolder;

/// ONNX Runtime holds the weights as they were read and once more in the order its products want them
/// (peak RSS 320 MB for 157 MB of weights, 286 for 141, 605 for 311, 4.1 GB for 2.39 GB; the
/// cache was a part of it).
const COPIES: u64 = 2;

/// Bytes that a decoder takes at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Needed {
    /// The weights as ONNX Runtime holds them.
    pub weights: u64,
    /// Keys and values of all slots when they are full, and logits.
    pub cache: u64,
}

impl Needed {
    /// For a folder and a capacity, without loading anything.
    #[must_use]
    pub fn of(folder: &LanguageFolder, capacity: Capacity) -> Self {
        let shape = &folder.shape;
        let tokens = (capacity.slots as u64).saturating_mul(capacity.window as u64);
        let logits = (capacity.slots as u64)
            .saturating_mul(shape.vocabulary as u64)
            .saturating_mul(4);
        Self {
            weights: folder.weight_bytes.saturating_mul(COPIES),
            cache: tokens
                .saturating_mul(shape.cache_bytes(folder.signature.cache_element))
                .saturating_add(logits),
        }
    }

    /// Refuses what does not fit into `available` bytes.
    pub(super) fn fit(
        self,
        capacity: Capacity,
        available: Option<u64>,
    ) -> Result<(), DecoderError> {
        let needed = self.weights.saturating_add(self.cache);
        match available {
            Some(available) if needed > available => Err(DecoderError::Memory {
                needed_mb: needed.div_ceil(1_000_000),
                weights_mb: self.weights / 1_000_000,
                cache_mb: self.cache / 1_000_000,
                slots: capacity.slots,
                window: capacity.window,
                available_mb: available / 1_000_000,
            }),
            _ => Ok(()),
        }
    }
}

/// Bytes that can still be had: `MemAvailable`, or less where a control group says so. `None` where
/// the system does not say.
#[must_use]
pub fn available() -> Option<u64> {
    available_under(Path::new("/"))
}

fn available_under(root: &Path) -> Option<u64> {
    let meminfo = fs::read_to_string(root.join("proc/meminfo")).ok()?;
    let system = meminfo.lines().find_map(|line| {
        let kilobytes = line
            .strip_prefix("MemAvailable:")?
            .trim()
            .strip_suffix("kB")?;
        kilobytes.trim().parse::<u64>().ok()?.checked_mul(1024)
    })?;
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut least = system;
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (mount, most, used) = if controllers.is_empty() {
            ("sys/fs/cgroup", "memory.max", "memory.current")
        } else if controllers.split(',').any(|name| name == "memory") {
            (
                "sys/fs/cgroup/memory",
                "memory.limit_in_bytes",
                "memory.usage_in_bytes",
            )
        } else {
            continue;
        };
        // A limit of any group around this one holds as well. Inside a container the path may be that
        // of the host, and only the mount's own root be visible.
        let base = root.join(mount);
        let mut folder: PathBuf = base.join(path.trim_start_matches('/'));
        loop {
            if let Some(left) = left_in(&folder, most, used) {
                least = least.min(left);
            }
            if folder == base || !folder.pop() {
                break;
            }
        }
    }
    Some(least)
}

/// What a control group leaves; `None` if it sets no limit.
fn left_in(group: &Path, most: &str, used: &str) -> Option<u64> {
    let number = |name: &str| {
        fs::read_to_string(group.join(name))
            .ok()?
            .trim()
            .parse::<u64>()
            .ok()
    };
    let (most, used) = (number(most)?, number(used)?);
    // Pages of files that were read count as used, but are given up when memory is wanted.
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let cached = stat
        .lines()
        .find_map(|line| {
            line.strip_prefix("inactive_file ")?
                .trim()
                .parse::<u64>()
                .ok()
        })
        .unwrap_or(0);
    Some(most.saturating_sub(used.saturating_sub(cached)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn a_control_group_with_less_than_the_machine_decides() {
        let root = tempfile::tempdir().unwrap();
        write(
            root.path(),
            "proc/meminfo",
            "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n",
        );
        assert_eq!(available_under(root.path()), Some(8000 * 1024));

        write(root.path(), "proc/self/cgroup", "0::/shop/till\n");
        write(root.path(), "sys/fs/cgroup/shop/memory.max", "3000000\n");
        write(
            root.path(),
            "sys/fs/cgroup/shop/memory.current",
            "2500000\n",
        );
        write(
            root.path(),
            "sys/fs/cgroup/shop/memory.stat",
            "anon 1\ninactive_file 500000\n",
        );
        write(root.path(), "sys/fs/cgroup/shop/till/memory.max", "max\n");
        write(root.path(), "sys/fs/cgroup/shop/till/memory.current", "7\n");
        // 3 000 000 − (2 500 000 − 500 000), by hand.
        assert_eq!(available_under(root.path()), Some(1_000_000));
    }

    #[test]
    fn the_older_hierarchy_is_read_as_well() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "proc/meminfo", "MemAvailable: 8000 kB\n");
        write(root.path(), "proc/self/cgroup", "4:memory:/a\n3:cpu:/b\n");
        write(
            root.path(),
            "sys/fs/cgroup/memory/a/memory.limit_in_bytes",
            "900\n",
        );
        write(
            root.path(),
            "sys/fs/cgroup/memory/a/memory.usage_in_bytes",
            "1000\n",
        );
        assert_eq!(available_under(root.path()), Some(0));
    }

    #[test]
    fn too_little_memory_is_refused_with_the_numbers() {
        let needed = Needed {
            weights: 300_000_000,
            cache: 50_000_001,
        };
        let capacity = Capacity {
            slots: 2,
            window: 512,
        };
        assert!(needed.fit(capacity, None).is_ok());
        assert!(needed.fit(capacity, Some(350_000_001)).is_ok());
        let said = needed
            .fit(capacity, Some(100_000_000))
            .unwrap_err()
            .to_string();
        for figure in ["351 MB", "300 for", "50 for 2", "512 tokens", "100 MB"] {
            assert!(said.contains(figure), "{figure} is not in: {said}");
        }
    }
}
