/* The one file that is compiled for each driver branch. */
extern const int nvml_level;
const int nvml_level = NVML_LEVEL;
