//! Names the CPU device for a session, with the functions newer libraries have for that.
//!
//! The program is compiled for the function table of 1.18, so that a Jetson's library will do. From
//! 1.22 on a session can be given its device; without one, ONNX Runtime chooses, and once a plugin
//! provider is registered it may choose that. The table of 1.22 is asked for at run time and the
//! three functions needed are taken from it by position: `OrtApi` only ever grows at its end, which
//! ONNX Runtime's own source asserts. The positions are counted in `ort-sys`, whose struct ends
//! where the feature of that version ends; the assertion below ties them to it.

use std::ffi::{CStr, c_char};

use ort::AsPointer;
use ort::session::builder::SessionBuilder;
use ort::sys::{OrtApi, OrtEnv, OrtEpDevice, OrtSessionOptions, OrtStatusPtr};

use crate::Library;

/// The first version with these functions.
const SINCE_MINOR: u32 = 22;

/// Where the table of 1.18 ends. 1.20 adds 5 functions, 1.22 begins after those.
const END_OF_1_18: usize = 280;
const _: () = assert!(size_of::<OrtApi>() == END_OF_1_18 * size_of::<*const ()>());

const GET_EP_DEVICES: usize = END_OF_1_18 + 5 + 18;
const APPEND_EXECUTION_PROVIDER_V2: usize = GET_EP_DEVICES + 1;
const EP_DEVICE_EP_NAME: usize = GET_EP_DEVICES + 9;

type GetEpDevices = unsafe extern "system" fn(
    *const OrtEnv,
    *mut *const *const OrtEpDevice,
    *mut usize,
) -> OrtStatusPtr;
type AppendExecutionProviderV2 = unsafe extern "system" fn(
    *mut OrtSessionOptions,
    *mut OrtEnv,
    *const *const OrtEpDevice,
    usize,
    *const *const c_char,
    *const *const c_char,
    usize,
) -> OrtStatusPtr;
type EpDeviceEpName = unsafe extern "system" fn(*const OrtEpDevice) -> *const c_char;

/// The function at a position of the table.
///
/// # Safety
///
/// `table` must be what `GetApi(SINCE_MINOR)` returned, and `F` the type of that function.
unsafe fn function<F: Copy>(table: *const OrtApi, position: usize) -> F {
    const { assert!(size_of::<F>() == size_of::<*const ()>()) };
    // SAFETY: the table is an array of function pointers, and reaches past every position used here.
    unsafe { table.cast::<F>().add(position).read() }
}

/// Puts the session on the CPU provider's device and on no other.
///
/// A library that lists no device at all leaves nothing to choose: a session without providers is
/// then on the CPU. That is every library before 1.22, which has no plugin providers, and 1.22
/// itself, which finds no devices on Linux (seen with the wheel of 1.22.1; 1.23 finds them).
pub(crate) fn name_cpu(library: &Library, builder: &mut SessionBuilder) -> ort::Result<()> {
    let Some(table) = library.table(SINCE_MINOR) else {
        return Ok(());
    };
    // SAFETY: the table is that of 1.22 and the types are those of onnxruntime_c_api.h.
    let (get_devices, append, name_of) = unsafe {
        (
            function::<GetEpDevices>(table, GET_EP_DEVICES),
            function::<AppendExecutionProviderV2>(table, APPEND_EXECUTION_PROVIDER_V2),
            function::<EpDeviceEpName>(table, EP_DEVICE_EP_NAME),
        )
    };
    let environment = library.environment_pointer();
    let mut devices = std::ptr::null();
    let mut count = 0;
    // SAFETY: the environment lives as long as the process; both outputs are ours.
    unsafe {
        ort::Error::result_from_status(get_devices(environment, &raw mut devices, &raw mut count))
    }?;
    if count == 0 {
        return Ok(());
    }
    // SAFETY: ONNX Runtime returned an array of `count` devices; it stays until a provider is
    // registered or removed, which this program does not do between here and `append`.
    let listed = unsafe { std::slice::from_raw_parts(devices, count) };
    let cpu = listed.iter().copied().find(|device| {
        // SAFETY: the device comes from the list above; its name is a string that lives as long.
        let name = unsafe { name_of(*device) };
        // SAFETY: as above, and not null.
        !name.is_null() && unsafe { CStr::from_ptr(name) } == c"CPUExecutionProvider"
    });
    // `append` would take an empty list and leave the choice to ONNX Runtime.
    let Some(cpu) = cpu else {
        return Err(ort::Error::new(
            "this ONNX Runtime lists devices, but none of the CPUExecutionProvider",
        ));
    };
    // SAFETY: options and environment are live, the device is listed, and there are no options.
    unsafe {
        ort::Error::result_from_status(append(
            builder.ptr_mut(),
            environment.cast_mut(),
            &raw const cpu,
            1,
            std::ptr::null(),
            std::ptr::null(),
            0,
        ))
    }
}
