//! What device this is: it stands at the beginning of every segment, so that a folder that was copied away still says whose
//! it is.

use std::path::Path;

use serde::Serialize;

use super::{field, kilobytes, read, word};

/// What device this is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// Board or product, as its firmware calls it.
    pub model: Option<String>,
    /// Its name in the network.
    pub hostname: Option<String>,
    /// Its processor.
    pub cpu: Option<String>,
    /// Cores that the program may use.
    pub cores: u64,
    /// `x86_64`, `aarch64`.
    pub architecture: &'static str,
    /// Memory of the device.
    pub memory_bytes: Option<u64>,
    /// Release of the kernel.
    pub kernel: Option<String>,
    /// The distribution.
    pub os: Option<String>,
    /// The vendor's platform: `L4T R36.4.0` on a Jetson with JetPack 6.
    pub platform: Option<String>,
}

impl Identity {
    /// Reads it from the file system below `root` (`/` for this device).
    #[must_use]
    pub fn read(root: &Path) -> Self {
        let cpuinfo = read(&root.join("proc/cpuinfo")).unwrap_or_default();
        // A board says its name in the device tree, a computer in the tables of its firmware.
        let model = word(&root.join("proc/device-tree/model")).or_else(|| {
            let table = |name: &str| word(&root.join("sys/class/dmi/id").join(name));
            match (table("sys_vendor"), table("product_name")) {
                (Some(vendor), Some(name)) if !name.starts_with(&vendor) => {
                    Some(format!("{vendor} {name}"))
                }
                (_, Some(name)) => Some(name),
                (vendor, None) => vendor,
            }
        });
        Self {
            model,
            hostname: word(&root.join("proc/sys/kernel/hostname")),
            cpu: field(&cpuinfo, "model name")
                .or_else(|| field(&cpuinfo, "Model"))
                .or_else(|| arm_core(&cpuinfo)),
            cores: std::thread::available_parallelism().map_or(1, |n| n.get() as u64),
            architecture: std::env::consts::ARCH,
            memory_bytes: read(&root.join("proc/meminfo"))
                .and_then(|text| kilobytes(&text, "MemTotal")),
            kernel: word(&root.join("proc/sys/kernel/osrelease")),
            os: read(&root.join("etc/os-release")).and_then(|text| pretty_name(&text)),
            platform: word(&root.join("etc/nv_tegra_release")).and_then(|line| l4t(&line)),
        }
    }
}

/// Arm kernels name implementer and part by number (the ARM® Architecture Reference Manual, MIDR_EL1).
fn arm_core(cpuinfo: &str) -> Option<String> {
    let implementer = field(cpuinfo, "CPU implementer")?;
    let part = field(cpuinfo, "CPU part")?;
    let known = match (implementer.as_str(), part.as_str()) {
        ("0x41", "0xd03") => "Cortex-A53",
        ("0x41", "0xd07") => "Cortex-A57",
        ("0x41", "0xd08") => "Cortex-A72",
        ("0x41", "0xd0b") => "Cortex-A76",
        ("0x41", "0xd42") => "Cortex-A78AE",
        ("0x41", "0xd4f") => "Neoverse-V2",
        ("0x41", "0xd83") => "Neoverse-V3AE",
        ("0x4e", "0x003") => "NVIDIA Denver 2",
        ("0x4e", "0x004") => "NVIDIA Carmel",
        _ => return Some(format!("Arm implementer {implementer} part {part}")),
    };
    Some(known.to_owned())
}

/// `PRETTY_NAME="Ubuntu 22.04.4 LTS"` (os-release(5)).
fn pretty_name(text: &str) -> Option<String> {
    let value = text
        .lines()
        .find_map(|line| line.strip_prefix("PRETTY_NAME="))?;
    let value = value.trim().trim_matches(['"', '\'']);
    (!value.is_empty()).then(|| value.to_owned())
}

/// `# R36 (release), REVISION: 4.0, GCID: …` → `L4T R36.4.0`.
fn l4t(line: &str) -> Option<String> {
    let release = line.trim_start_matches('#').split_whitespace().next()?;
    let revision = line.split_once("REVISION:")?.1.split(',').next()?.trim();
    (release.starts_with('R') && !revision.is_empty()).then(|| format!("L4T {release}.{revision}"))
}

#[cfg(test)]
mod tests {
    use super::super::made_up;
    use super::*;

    // The texts of the files are those of a Jetson AGX Orin devkit with JetPack 6.1, shortened.
    #[test]
    fn a_made_up_orin_says_what_it_is() {
        let root = made_up(&[
            (
                "proc/device-tree/model",
                "NVIDIA Jetson AGX Orin Developer Kit\0",
            ),
            ("proc/sys/kernel/hostname", "cabinet-7\n"),
            ("proc/sys/kernel/osrelease", "5.15.148-tegra\n"),
            (
                "proc/cpuinfo",
                "processor\t: 0\nBogoMIPS\t: 62.50\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: 0xd42\n",
            ),
            (
                "proc/meminfo",
                "MemTotal:       64349508 kB\nMemFree: 1 kB\n",
            ),
            (
                "etc/os-release",
                "NAME=\"Ubuntu\"\nPRETTY_NAME=\"Ubuntu 22.04.5 LTS\"\n",
            ),
            (
                "etc/nv_tegra_release",
                "# R36 (release), REVISION: 4.0, GCID: 37537400, BOARD: generic, EABI: aarch64\n# KERNEL_VARIANT: oot\n",
            ),
        ]);
        let found = Identity::read(root.path());
        assert_eq!(
            found.model.as_deref(),
            Some("NVIDIA Jetson AGX Orin Developer Kit")
        );
        assert_eq!(found.hostname.as_deref(), Some("cabinet-7"));
        assert_eq!(found.cpu.as_deref(), Some("Cortex-A78AE"));
        assert_eq!(found.memory_bytes, Some(64_349_508 * 1024));
        assert_eq!(found.kernel.as_deref(), Some("5.15.148-tegra"));
        assert_eq!(found.os.as_deref(), Some("Ubuntu 22.04.5 LTS"));
        assert_eq!(found.platform.as_deref(), Some("L4T R36.4.0"));
    }

    #[test]
    fn what_a_device_does_not_say_is_unknown() {
        let root = made_up(&[
            ("sys/class/dmi/id/sys_vendor", "Acme\n"),
            ("sys/class/dmi/id/product_name", "Acme Box 3\n"),
            ("proc/meminfo", "MemTotal: lots\n"),
        ]);
        let found = Identity::read(root.path());
        assert_eq!(found.model.as_deref(), Some("Acme Box 3"));
        assert_eq!(
            (found.cpu, found.memory_bytes, found.platform),
            (None, None, None)
        );
        assert!(found.cores >= 1);
    }

    #[test]
    fn this_device_has_memory_and_a_kernel() {
        let found = Identity::read(Path::new("/"));
        assert!(found.memory_bytes.is_some_and(|bytes| bytes > 1 << 20));
        assert!(found.kernel.is_some());
    }
}
