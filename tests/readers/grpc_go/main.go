// A kubelet as far as pod resources go, made of the kubelet's own Go module and grpc-go: listens on the socket that it is told,
// with so many pods, each of which has a card.
package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strconv"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/kubelet/pkg/apis/podresources/v1"
)

type server struct {
	v1.UnimplementedPodResourcesListerServer
	pods int
}

func devices(number int) []*v1.ContainerDevices {
	return []*v1.ContainerDevices{{
		ResourceName: "nvidia.com/gpu",
		DeviceIds:    []string{fmt.Sprintf("GPU-%08x-0000-0000-0000-000000000000", number)},
		Topology:     &v1.TopologyInfo{Nodes: []*v1.NUMANode{{ID: 1}}},
	}}
}

func (s *server) List(context.Context, *v1.ListPodResourcesRequest) (*v1.ListPodResourcesResponse, error) {
	answer := &v1.ListPodResourcesResponse{}
	for number := 0; number < s.pods; number++ {
		drawn := &v1.DynamicResource{ClaimName: "claim", ClaimNamespace: "team", ClaimResources: []*v1.ClaimResource{{
			DriverName: "gpu.nvidia.com", PoolName: "node", DeviceName: fmt.Sprintf("gpu-%d", number),
		}}}
		answer.PodResources = append(answer.PodResources, &v1.PodResources{
			Name: fmt.Sprintf("pod-%d", number), Namespace: "team",
			Containers: []*v1.ContainerResources{{
				Name: "main", Devices: devices(number), CpuIds: []int64{1, 2}, DynamicResources: []*v1.DynamicResource{drawn},
			}},
		})
	}
	return answer, nil
}

func (s *server) GetAllocatableResources(context.Context, *v1.AllocatableResourcesRequest) (*v1.AllocatableResourcesResponse, error) {
	return nil, status.Error(codes.ResourceExhausted, "zu viel: 50 %\n«später»")
}

func main() {
	pods, err := strconv.Atoi(os.Args[2])
	if err != nil {
		panic(err)
	}
	listener, err := net.Listen("unix", os.Args[1])
	if err != nil {
		panic(err)
	}
	grpcServer := grpc.NewServer(grpc.MaxSendMsgSize(1 << 30))
	v1.RegisterPodResourcesListerServer(grpcServer, &server{pods: pods})
	fmt.Println("ready")
	if err := grpcServer.Serve(listener); err != nil {
		panic(err)
	}
}
