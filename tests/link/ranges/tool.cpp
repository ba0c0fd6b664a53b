// SPDX-License-Identifier: Apache-2.0
// The pointer through which NVTX finds a tool that is part of the program. In a file of its own:
// where NVTX is included it is declared weak.
extern "C" {
int attach_tool(const void* (*get_export_table)(unsigned));
int (*InitializeInjectionNvtx2_fnptr)(const void* (*)(unsigned)) = attach_tool;
}
