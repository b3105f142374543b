"""Databases like those of profilers, made of the rows of a test."""

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from telemetry_profile.files.database import open_database
from telemetry_profile.format_contract import DatabaseFormat, Facts
from telemetry_profile.formats import ascend_tables, hipprof, msprof_database, nsys_sqlite, rocprof_databases

FORMATS = (
    ascend_tables.ANALYSIS,
    hipprof.DATABASE,
    msprof_database.FORMAT,
    nsys_sqlite.FORMAT,
    rocprof_databases.ROCPD,
    rocprof_databases.ROCPROF,
)
T = 1_700_000_000_000_000_000
PID = 4242
GLOBAL = (1 << 48) | (PID << 24)
Tables = Mapping[str, tuple[str, Sequence[tuple[object, ...]]]]
"""By the name of a table: its columns, separated by commas, and its rows."""

HIPPROF: Tables = {
    "CONFIG": ("KEY,PID,RANK_ID,TIME_OF_DAY,IP", [("10_9_8_7_77_170", 77, -1, str(T), "10.9.8.7")]),
    "SUMMARY": ("NAME,KIND,PID,CALLS", [(7, 1, 77, 3)]),
    "STR_TABLE": (
        "PID,CONFIG_KEY,TYPE,STR_ID,STR_NAME",
        [(77, "10_9_8_7_77_170", 6, 1, "gemm(float*)"), (77, "10_9_8_7_77_170", 8, 1, "train_step_4")],
    ),
    "HIPOPS_10_9_8_7_77_170": (
        "BeginNs,EndNs,dev_id,queue_id,Name,pid,tid,_Index,DurationNs",
        [(T + 100, T + 300, 0, "0", "1", 77, 0, 1, 200), (T + 250, T + 400, 0, "1", "1", 77, 0, 2, 150)],
    ),
    "HIPCOPY_10_9_8_7_77_170": (
        "BeginNs,EndNs,dev_id,queue_id,Kind,pid,tid,_Index,DurationNs,Bytes,MemoryType",
        [(T, T + 50, 0, "0", 4596, 77, 0, 3, 50, 4096, 4), (T + 390, T + 500, 0, "0", 4595, 77, 0, 4, 110, 4096, 6)],
    ),
    "HIPTX_10_9_8_7_77_170": ("BeginNs,EndNs,pid,tid,Name,args", [(T, T + 600, 77, 77, 1, "")]),
}
NSYS: Tables = {
    "StringIds": (
        "id,value",
        [(1, "void gemm<float>(T1 *)"), (2, "ncclDevKernel_AllReduce"), (3, "cudaLaunchKernel_v7000"), (4, "step 7")],
    ),
    "CUPTI_ACTIVITY_KIND_KERNEL": (
        "start,end,deviceId,globalPid,demangledName,shortName,gridX,gridY,gridZ,blockX,blockY,blockZ",
        [
            (100, 300, 0, GLOBAL, 1, 1, 2, 3, 1, 128, 1, 1),
            (250, 400, 0, GLOBAL, 2, 2, 1, 1, 1, 64, 1, 1),
        ],
    ),
    "CUPTI_ACTIVITY_KIND_MEMCPY": (
        "start,end,deviceId,globalPid,bytes,copyKind",
        [(0, 50, 0, GLOBAL, 4096, 1), (390, 500, 0, GLOBAL, 4096, 2)],
    ),
    "CUPTI_ACTIVITY_KIND_RUNTIME": ("start,end,nameId,globalTid", [(90, 95, 3, GLOBAL), (240, 249, 3, GLOBAL)]),
    "NVTX_EVENTS": (
        "start,end,text,textId,globalTid",
        [(0, 600, None, 4, GLOBAL + 9), (5, None, "mark 1", None, GLOBAL), (0, 40, "dataloader", None, GLOBAL)],
    ),
    "TARGET_INFO_GPU": (
        "id,name,busLocation,uuid",
        [(0, "NVIDIA A100", "0000:03:00.0", "38DD3137-64b7-7ca8-74e6-4b01011bb179")],
    ),
    "TARGET_INFO_SESSION_START_TIME": ("utcEpochNs,utcTime", [(T, "")]),
    "TARGET_INFO_SYSTEM_ENV": ("name,value", [("Hostname", "secret-host")]),
}
ROCPD_SIZES = "workgroup_size_x,workgroup_size_y,workgroup_size_z,grid_size_x,grid_size_y,grid_size_z"
ROCPD: Tables = {
    "rocpd_string_u1": (
        "id,guid,string",
        [(1, "u1", "MEMORY_COPY_HOST_TO_DEVICE"), (2, "u1", "roctxThreadRangeA"), (3, "u1", "hipLaunchKernel")],
    ),
    "rocpd_info_agent_u1": (
        "id,guid,nid,pid,type,absolute_index,logical_index,type_index,name,product_name,extdata",
        [
            (0, "u1", 9, 77, "CPU", 0, 0, 0, "Xeon", "Xeon", "{}"),
            (2, "u1", 9, 77, "GPU", 2, 2, 0, "gfx942", "AMD Instinct MI300X", '{"location_id": 3072, "domain": 1}'),
        ],
    ),
    "rocpd_info_kernel_symbol_u1": ("id,guid,kernel_name,display_name", [(5, "u1", "_Z4gemmPf", "gemm(float*)")]),
    "rocpd_kernel_dispatch_u1": (
        f"id,guid,nid,pid,agent_id,kernel_id,start,end,{ROCPD_SIZES},region_name_id,event_id",
        [
            (1, "u1", 9, 77, 2, 5, 100, 300, 256, 1, 1, 512, 2, 1, None, 1),
            (2, "u1", 9, 77, 2, 5, 250, 400, 256, 1, 1, 512, 2, 1, None, None),
        ],
    ),
    "rocpd_memory_copy_u1": (
        "id,guid,nid,pid,start,end,name_id,dst_agent_id,src_agent_id,size",
        [(1, "u1", 9, 77, 10, 50, 1, 2, 0, 4096), (2, "u1", 9, 77, 390, 500, 1, 0, 2, 4096)],
    ),
    "rocpd_event_u1": ("id,guid,category_id,extdata", [(8, "u1", 4, '{"message": "iteration 12"}')]),
    "rocpd_region_u1": (
        "id,guid,nid,pid,tid,start,end,name_id,event_id",
        [(1, "u1", 9, 77, 77, 5, 600, 2, 8), (2, "u1", 9, 77, 77, 90, 99, 3, 9)],
    ),
    "rocpd_info_process_u1": ("id,command,environment", [(77, "python --key secret", '{"TOKEN": "secret"}')]),
    "rocpd_info_node_u1": ("id,hostname", [(9, "secret-host")]),
}
ROCPROF: Tables = {
    "OPS": (
        "BeginNs,EndNs,dev-id,queue-id,Name,pid,tid,DurationNs",
        [
            (100, 300, 0, 0, '"gemm(float*)"', 77, 0, 200),
            (250, 400, 0, 1, '"gemm(float*)"', 77, 0, 150),
            (400, 9000, 0, 1, '"<barrier packet>"', 77, 0, 8600),
        ],
    ),
    "COPY": (
        "BeginNs,EndNs,Name,pid,tid,DurationNs",
        [(10, 50, "async-copy", 77, 0, 40), (390, 500, "async-copy", 77, 0, 110)],
    ),
    "HIP": ("BeginNs,EndNs,pid,tid,Name,args", [(90, 95, 77, 77, "hipLaunchKernel", "secret")]),
    "rocTX": ("BeginNs,EndNs,pid,tid,Name", [(5, 600, 77, 77, '"iteration 12"')]),
}
MSPROF: Tables = {
    "STRING_IDS": (
        "id,value",
        [
            (1, "MatMulV2"),
            (2, "hcom_allReduce__428_0_1"),
            (3, "aclrtLaunchKernel"),
            (4, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__"),
            (5, "10.9.8.7%eth0_60000"),
        ],
    ),
    "TASK": (
        "startNs,endNs,deviceId,connectionId,globalTaskId,globalPid,taskType",
        [
            (T + 100, T + 250, 3, 1, 11, 77, 0),
            (T + 390, T + 500, 3, 1, 12, 77, 0),
            (T + 395, T + 396, 3, 1, 13, 77, 0),
        ],
    ),
    "COMPUTE_TASK_INFO": ("name,globalTaskId,taskType,opType", [(1, 11, 0, 1)]),
    "MEMCPY_INFO": ("globalTaskId,size,memcpyOperation", [(12, 4096, 1)]),
    "COMMUNICATION_OP": (
        "opName,startNs,endNs,connectionId,groupName,opId",
        [(2, T + 200, T + 400, 1, 5, 1)],
    ),
    "CANN_API": ("startNs,endNs,type,globalTid,connectionId,name", [(T + 90, T + 99, 0, 0, 1, 3)]),
    "PYTORCH_API": ("startNs,endNs,globalTid,name", [(T, T + 40, 0, 4)]),
    "STEP_TIME": ("id,startNs,endNs", [(12, T, T + 600)]),
    "NPU_INFO": ("id,name", [(3, "Ascend910B3")]),
    "RANK_DEVICE_MAP": ("rankId,deviceId", [(11, 3)]),
    "HOST_INFO": ("hostUid,hostName", [("1", "secret-host")]),
}
STEP_COLUMNS = "step,type,index,computing,communication_not_overlapped,overlapped,communication,free"
MATRIX_COLUMNS = "step,hccl_op_name,group_name,src_rank,dst_rank,transit_size,transit_time,bandwidth,transport_type"
ANALYSIS: Tables = {
    "ClusterStepTraceTime": (
        STEP_COLUMNS,
        [
            ("3", "rank", 0, 100.5, 20.25, 10, 30.25, 5),
            ("3", "rank", "1", "80", "40.5", "1", "41.5", "5"),
            ("3", "stage", "(0, 1)", 100, 40, 10, 50, 5),
            ("4", "rank", 0, "N/A", 1, 1, 1, 1),
        ],
    ),
    "ClusterCommAnalyzerMatrix": (
        MATRIX_COLUMNS,
        [
            ("3", "allReduce-top1", "10.9.8.7", "0", "1", 2.5, 0.5, 5, "HCCS"),
            ("3", "allReduce-top2", "10.9.8.7", "0", "1", 1.5, 0.5, 3, "HCCS"),
            ("3", "Total Op Info", "10.9.8.7", "0", "1", 4, 1, 4, "HCCS"),
            ("3", "allReduce-top1", "10.9.8.7", "1", "1", 9, 1, 9, "LOCAL"),
        ],
    ),
}
MADE = {"hipprof": HIPPROF, "nsys": NSYS, "rocpd": ROCPD, "rocprof": ROCPROF, "msprof": MSPROF}
ALL = {**MADE, "analysis": ANALYSIS}


def write(path: Path, tables: Tables, *statements: str) -> Path:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        for name, (columns, rows) in tables.items():
            quoted = [f'"{column}"' for column in columns.split(",")]
            connection.execute(f'CREATE TABLE "{name}" ({", ".join(quoted)})')
            marks = ", ".join("?" * len(quoted))
            connection.executemany(f'INSERT INTO "{name}" VALUES ({marks})', rows)
        for statement in statements:
            connection.execute(statement)
        connection.commit()
    return path


def read(path: Path, seconds: float = 30.0) -> Facts:
    with open_database(path, seconds) as tables:
        return format_of(tables.schema).read(tables)


def format_of(schema: Mapping[str, tuple[str, ...]]) -> DatabaseFormat:
    (found,) = [known_format for known_format in FORMATS if known_format.recognises(schema)]
    return found
