//! The state of the device now: temperatures, clocks, memory, load, power.

use std::path::{Path, PathBuf};

use firstword_audio::clock::Stamp;
use serde::{Serialize, Serializer};

use super::{
    SHORT_OF_MEMORY, entries, field, is_loaded, is_throttled, kilobytes, number, process_memory,
    read, word,
};

/// A zone whose temperature the kernel knows.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Zone {
    /// Its name: `cpu-thermal`, `x86_pkg_temp`.
    pub name: String,
    /// Its temperature.
    pub temperature_c: f64,
}

/// A rail whose power the device measures.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rail {
    /// Its name: `VDD_CPU_CV`.
    pub name: String,
    /// What flows.
    pub power_mw: f64,
}

/// The state of the device at one instant.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// When it was read.
    pub at: Stamp,
    /// The hottest zone.
    pub temperature_c: Option<f64>,
    /// All zones.
    pub zones: Vec<Zone>,
    /// Mean clock of the cores.
    pub cpu_mhz: Option<f64>,
    /// The highest clock that a core can have.
    pub cpu_max_mhz: Option<f64>,
    /// Clocks of all cores.
    pub cores_mhz: Vec<f64>,
    /// Whether the processor said since the last sample that it slows itself down for heat.
    pub throttled: Option<bool>,
    /// Memory that can be had.
    pub memory_available_bytes: Option<u64>,
    /// Memory of this process.
    pub process_rss_bytes: Option<u64>,
    /// Runnable tasks, mean of a minute.
    pub load_1m: Option<f64>,
    /// Share of all cores' time in use since the last sample, 0 to 1.
    pub busy: Option<f64>,
    /// Share that a hypervisor took away meanwhile.
    pub steal: Option<f64>,
    /// Sum of the rails, or what a battery gives.
    pub power_mw: Option<f64>,
    /// All rails.
    pub rails: Vec<Rail>,
    /// Power mode: `MAXN` and so on of a Jetson, `performance` and so on of others.
    pub power_mode: Option<String>,
    /// Cores that the program may use.
    pub cores: f64,
}

impl Sample {
    /// Whether heat keeps it below its clock.
    #[must_use]
    pub fn is_throttled(&self) -> bool {
        let clock = self
            .cpu_mhz
            .zip(self.cpu_max_mhz)
            .map(|(now, most)| now / most);
        is_throttled(self.throttled, self.temperature_c, clock)
    }

    /// Whether others used the processor.
    #[must_use]
    pub fn is_loaded(&self) -> bool {
        let cores = (self.cores > 0.0).then_some(self.cores);
        is_loaded(self.steal, self.busy, self.load_1m, cores)
    }

    /// Whether hardly any memory can be had.
    #[must_use]
    pub fn is_short_of_memory(&self) -> bool {
        self.memory_available_bytes
            .is_some_and(|bytes| (bytes as f64) < SHORT_OF_MEMORY)
    }
}

/// What records and device lines have of a sample.
#[derive(Serialize)]
struct State<'a> {
    temperature_c: Option<f64>,
    cpu_mhz: Option<f64>,
    cpu_max_mhz: Option<f64>,
    throttled: Option<bool>,
    memory_available_bytes: Option<u64>,
    process_rss_bytes: Option<u64>,
    load_1m: Option<f64>,
    busy: Option<f64>,
    steal: Option<f64>,
    power_mw: Option<f64>,
    power_mode: Option<&'a str>,
}

fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

impl<'a> State<'a> {
    fn of(sample: &'a Sample) -> Self {
        let to = |digits: i32| move |value: f64| rounded(value, digits);
        Self {
            temperature_c: sample.temperature_c.map(to(1)),
            cpu_mhz: sample.cpu_mhz.map(to(0)),
            cpu_max_mhz: sample.cpu_max_mhz.map(to(0)),
            throttled: sample.throttled,
            memory_available_bytes: sample.memory_available_bytes,
            process_rss_bytes: sample.process_rss_bytes,
            load_1m: sample.load_1m.map(to(2)),
            busy: sample.busy.map(to(3)),
            steal: sample.steal.map(to(3)),
            power_mw: sample.power_mw.map(to(0)),
            power_mode: sample.power_mode.as_deref(),
        }
    }
}

/// As a record has it: with its own time, without what is told of each zone, core and rail.
impl Serialize for Sample {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Timed<'a> {
            at_ns: u64,
            #[serde(flatten)]
            state: State<'a>,
        }
        let at_ns = self.at.as_nanos();
        let state = State::of(self);
        Timed { at_ns, state }.serialize(serializer)
    }
}

/// As a device line has it, whose time is that of the line: everything.
#[derive(Serialize)]
pub struct Full<'a> {
    #[serde(flatten)]
    state: State<'a>,
    zones: &'a [Zone],
    cores_mhz: Vec<f64>,
    rails: &'a [Rail],
}

impl<'a> Full<'a> {
    /// All of a sample.
    #[must_use]
    pub fn of(sample: &'a Sample) -> Self {
        Self {
            state: State::of(sample),
            zones: &sample.zones,
            cores_mhz: sample
                .cores_mhz
                .iter()
                .map(|&mhz| rounded(mhz, 0))
                .collect(),
            rails: &sample.rails,
        }
    }
}

/// Reads samples; some of it is what happened since the last one.
#[derive(Debug)]
pub struct Sampler {
    root: PathBuf,
    /// Total, busy and stolen time of all cores at the last sample.
    times: Option<[f64; 3]>,
    /// How often the processor had slowed itself down by then.
    throttled: Option<f64>,
}

impl Sampler {
    /// Reads below `root` (`/` for this device).
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            times: None,
            throttled: None,
        }
    }

    /// The state now.
    #[must_use]
    pub fn sample(&mut self) -> Sample {
        let zones = self.zones();
        let cores_mhz = self.clocks();
        let rails = self.rails();
        let (busy, steal) = self.load();
        let meminfo = read(&self.root.join("proc/meminfo")).unwrap_or_default();
        let cpufreq = self.root.join("sys/devices/system/cpu/cpu0/cpufreq");
        Sample {
            at: Stamp::now(),
            temperature_c: zones.iter().map(|zone| zone.temperature_c).reduce(f64::max),
            zones,
            cpu_mhz: mean(&cores_mhz),
            cpu_max_mhz: number(&cpufreq.join("cpuinfo_max_freq")).map(|khz| khz / 1e3),
            cores_mhz,
            throttled: self.throttled(),
            memory_available_bytes: kilobytes(&meminfo, "MemAvailable"),
            process_rss_bytes: process_memory(&self.root),
            load_1m: word(&self.root.join("proc/loadavg"))
                .and_then(|line| line.split(' ').next()?.parse().ok()),
            busy,
            steal,
            power_mw: (!rails.is_empty()).then(|| rails.iter().map(|rail| rail.power_mw).sum()),
            rails,
            power_mode: self.power_mode(),
            cores: std::thread::available_parallelism().map_or(1.0, |n| n.get() as f64),
        }
    }

    fn zones(&self) -> Vec<Zone> {
        entries(&self.root.join("sys/class/thermal"))
            .into_iter()
            .filter(|path| {
                path.file_name()
                    .is_some_and(|name| name.as_encoded_bytes().starts_with(b"thermal_zone"))
            })
            .filter_map(|path| {
                let temperature_c = number(&path.join("temp"))? / 1e3;
                // A zone whose sensor is off says −256 °C or reads as an error.
                (-50.0..200.0).contains(&temperature_c).then(|| Zone {
                    name: word(&path.join("type")).unwrap_or_default(),
                    temperature_c,
                })
            })
            .collect()
    }

    /// Clocks of all cores, MHz.
    fn clocks(&self) -> Vec<f64> {
        let from_cpufreq: Vec<f64> = entries(&self.root.join("sys/devices/system/cpu"))
            .into_iter()
            .filter_map(|path| {
                let name = path.file_name()?.to_str()?.strip_prefix("cpu")?;
                name.bytes().all(|b| b.is_ascii_digit()).then_some(())?;
                Some(number(&path.join("cpufreq/scaling_cur_freq"))? / 1e3)
            })
            .collect();
        if !from_cpufreq.is_empty() {
            return from_cpufreq;
        }
        // Virtual machines have no cpufreq, but x86 kernels know the clock.
        read(&self.root.join("proc/cpuinfo"))
            .unwrap_or_default()
            .lines()
            .filter_map(|line| field(line, "cpu MHz")?.parse().ok())
            .collect()
    }

    /// Shares of all cores' time since the last sample: in use, and stolen.
    fn load(&mut self) -> (Option<f64>, Option<f64>) {
        let now = word(&self.root.join("proc/stat")).and_then(|line| times(&line));
        let before = std::mem::replace(&mut self.times, now);
        let (Some(before), Some(now)) = (before, now) else {
            return (None, None);
        };
        let passed = now[0] - before[0];
        let share =
            |at: usize| (passed > 0.0).then(|| ((now[at] - before[at]) / passed).clamp(0.0, 1.0));
        (share(1), share(2))
    }

    /// Whether an Intel processor has slowed itself down for heat since the last sample; others do not say.
    fn throttled(&mut self) -> Option<bool> {
        let folder = self
            .root
            .join("sys/devices/system/cpu/cpu0/thermal_throttle");
        let now = number(&folder.join("package_throttle_count"))
            .or_else(|| number(&folder.join("core_throttle_count")));
        let before = std::mem::replace(&mut self.throttled, now);
        Some(now? > before?)
    }

    /// Rails of the INA3221 monitors that Jetsons have: volts and amperes of up to three channels each.
    fn rails(&self) -> Vec<Rail> {
        let mut rails = Vec::new();
        for monitor in entries(&self.root.join("sys/class/hwmon")) {
            if word(&monitor.join("name")).as_deref() != Some("ina3221") {
                continue;
            }
            for channel in 1..=3 {
                let file = |what: &str| monitor.join(format!("{what}{channel}_input"));
                let label = word(&monitor.join(format!("in{channel}_label")));
                let (mv, ma) = (number(&file("in")), number(&file("curr")));
                if let (Some(name), Some(mv), Some(ma)) = (label, mv, ma) {
                    rails.push(Rail {
                        name,
                        power_mw: mv * ma / 1e3,
                    });
                }
            }
        }
        rails
    }

    fn power_mode(&self) -> Option<String> {
        // What nvpmodel last set, by number; its names are in its own configuration.
        if let Some(status) = word(&self.root.join("var/lib/nvpmodel/status")) {
            let number = status.strip_prefix("pmode:").unwrap_or(&status).trim();
            let number = number.trim_start_matches('0');
            let number = if number.is_empty() { "0" } else { number };
            return Some(
                self.nvpmodel_name(number)
                    .unwrap_or_else(|| format!("mode {number}")),
            );
        }
        word(&self.root.join("sys/firmware/acpi/platform_profile")).or_else(|| {
            word(
                &self
                    .root
                    .join("sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
            )
        })
    }

    /// `< POWER_MODEL ID=2 NAME=30W >` in nvpmodel's configuration.
    fn nvpmodel_name(&self, wanted: &str) -> Option<String> {
        let text = read(&self.root.join("etc/nvpmodel.conf"))?;
        text.lines().find_map(|line| {
            let line = line
                .trim()
                .strip_prefix('<')?
                .trim()
                .strip_prefix("POWER_MODEL")?;
            let value = |key: &str| {
                line.split([' ', '>'])
                    .find_map(|part| part.strip_prefix(key)?.strip_prefix('='))
            };
            (value("ID")? == wanted).then(|| value("NAME").map(str::to_owned))?
        })
    }
}

/// `cpu  user nice system idle iowait irq softirq steal …` (proc(5)): total, busy and stolen.
fn times(line: &str) -> Option<[f64; 3]> {
    let mut words = line.split_ascii_whitespace();
    (words.next()? == "cpu").then_some(())?;
    let ticks: Vec<f64> = words.take(8).map_while(|word| word.parse().ok()).collect();
    let idle = ticks.get(3)? + ticks.get(4).copied().unwrap_or_default();
    let steal = ticks.get(7).copied().unwrap_or_default();
    let total: f64 = ticks.iter().sum();
    Some([total, total - idle - steal, steal])
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

#[cfg(test)]
mod tests {
    use super::super::made_up;
    use super::*;

    // Shapes of the files as on a Jetson AGX Orin with JetPack 6; the values are chosen.
    #[test]
    fn a_made_up_orin_says_how_hot_fast_and_hungry_it_is() {
        let root = made_up(&[
            ("sys/class/thermal/thermal_zone0/type", "cpu-thermal\n"),
            ("sys/class/thermal/thermal_zone0/temp", "81250\n"),
            ("sys/class/thermal/thermal_zone1/type", "gpu-thermal\n"),
            ("sys/class/thermal/thermal_zone1/temp", "-256000\n"),
            ("sys/class/thermal/thermal_zone2/type", "tj-thermal\n"),
            ("sys/class/thermal/thermal_zone2/temp", "82000\n"),
            ("sys/class/thermal/cooling_device0/type", "pwm-fan\n"),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq",
                "1190400\n",
            ),
            (
                "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq",
                "2201600\n",
            ),
            (
                "sys/devices/system/cpu/cpu1/cpufreq/scaling_cur_freq",
                "1344000\n",
            ),
            (
                "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq",
                "1\n",
            ),
            ("sys/class/hwmon/hwmon3/name", "ina3221\n"),
            ("sys/class/hwmon/hwmon3/in1_label", "VDD_GPU_SOC\n"),
            ("sys/class/hwmon/hwmon3/in1_input", "19000\n"),
            ("sys/class/hwmon/hwmon3/curr1_input", "250\n"),
            ("sys/class/hwmon/hwmon3/in2_label", "VDD_CPU_CV\n"),
            ("sys/class/hwmon/hwmon3/in2_input", "19000\n"),
            ("sys/class/hwmon/hwmon3/curr2_input", "100\n"),
            ("var/lib/nvpmodel/status", "pmode:0002\n"),
            (
                "etc/nvpmodel.conf",
                "# modes\n< POWER_MODEL ID=0 NAME=MAXN >\n< POWER_MODEL ID=2 NAME=30W >\n",
            ),
            (
                "proc/meminfo",
                "MemTotal: 64349508 kB\nMemAvailable:   50000 kB\n",
            ),
            (
                "proc/self/status",
                "Name:\tfirstword\nVmRSS:\t  410000 kB\n",
            ),
            ("proc/loadavg", "3.20 2.10 1.00 4/900 1234\n"),
        ]);
        let sample = Sampler::new(root.path()).sample();
        assert_eq!(sample.temperature_c, Some(82.0));
        assert_eq!(sample.zones.len(), 2, "{:?}", sample.zones);
        // (1190.4 + 1344) ÷ 2 MHz.
        assert_eq!(sample.cpu_mhz, Some(1267.2));
        assert_eq!(sample.cpu_max_mhz, Some(2201.6));
        // 19 V × 250 mA and 19 V × 100 mA.
        assert_eq!(sample.power_mw, Some(4750.0 + 1900.0));
        assert_eq!(sample.power_mode.as_deref(), Some("30W"));
        assert_eq!(sample.process_rss_bytes, Some(410_000 * 1024));
        assert_eq!(sample.load_1m, Some(3.2));
        assert!(sample.is_throttled() && sample.is_short_of_memory());
        assert_eq!(serde_json::to_value(&sample).unwrap()["cpu_mhz"], 1267.0);
    }

    #[test]
    fn shares_are_of_what_passed_since_the_last_sample() {
        let root = made_up(&[("proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2 3\n")]);
        let mut sampler = Sampler::new(root.path());
        let first = sampler.sample();
        assert_eq!((first.busy, first.steal), (None, None));
        // 200 ticks later: 90 + 30 busy, 60 idle, 20 stolen.
        std::fs::write(
            root.path().join("proc/stat"),
            "cpu  190 0 130 850 10 0 0 20 0 0\n",
        )
        .unwrap();
        let second = sampler.sample();
        assert_eq!((second.busy, second.steal), (Some(0.6), Some(0.1)));
        assert!(second.is_loaded());
    }

    #[test]
    fn a_processor_that_counts_its_throttling_is_believed() {
        let count = "sys/devices/system/cpu/cpu0/thermal_throttle/package_throttle_count";
        let root = made_up(&[(count, "3\n")]);
        let mut sampler = Sampler::new(root.path());
        assert_eq!(sampler.sample().throttled, None);
        assert_eq!(sampler.sample().throttled, Some(false));
        std::fs::write(root.path().join(count), "4\n").unwrap();
        assert_eq!(sampler.sample().throttled, Some(true));
    }

    #[test]
    fn what_can_not_be_read_is_unknown_and_no_error() {
        let root = made_up(&[
            ("sys/class/thermal/thermal_zone0/temp", "warm\n"),
            ("proc/stat", "cpu  one two\n"),
            ("proc/loadavg", ""),
            ("proc/meminfo", "MemAvailable: 99999999999999999999 kB\n"),
        ]);
        let sample = Sampler::new(root.path()).sample();
        let unknown = Sample {
            at: sample.at,
            cores: sample.cores,
            ..Sample::default()
        };
        assert_eq!(sample, unknown);
        assert!(!sample.is_throttled() && !sample.is_loaded() && !sample.is_short_of_memory());
    }

    #[test]
    fn this_process_has_memory() {
        let sample = Sampler::new(Path::new("/")).sample();
        assert!(
            sample
                .process_rss_bytes
                .is_some_and(|bytes| bytes > 1 << 20)
        );
    }
}
